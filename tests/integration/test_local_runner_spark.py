"""The Spark that a worker's tasks share: what is private to a task, what no task can stop, and its loss.

With the local runner it is a JVM started by the worker's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from begun import begins_at_once
from runner_bench import SEEN, SETTINGS, SIGNALS, Events, counting, holding, order_of
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.local.isolation.thread_owners import ForeignThreadError
from airflow_provider.spark.runner import SparkLost, TaskFailed, TaskFinished, TaskOrder
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import Epoch, TaskId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark_application")

order = partial(order_of, __name__)


# --- sessions


@spark_job
def tell_settings(spark: SparkSession, task: TaskContext) -> object:
    return [
        spark.conf.get("spark.sql.shuffle.partitions"),
        spark.sparkContext.getLocalProperty("spark.scheduler.pool"),
    ]


async def test_a_task_has_the_settings_of_its_job_and_the_pool_that_it_names(
    runner: LocalRunner, events: Events
) -> None:
    plain = order("tell_settings", 0)
    conf = {"spark.sql.shuffle.partitions": "17", "spark.scheduler.pool": "etl"}
    given = replace(order("tell_settings", 1), session_conf=conf)
    for task, told in ((given, ["17", "etl"]), (plain, ["4", "task-0"])):
        await runner.start(task)
        assert await events.result(task.task) == told


async def test_a_setting_that_spark_refuses_fails_the_task_for_good(runner: LocalRunner, events: Events) -> None:
    task = replace(order("tell_settings"), session_conf={"spark.sql.shuffle.partitions": "many"})
    await runner.start(task)
    failed = await events.last(task.task)
    assert isinstance(failed, TaskFailed)
    assert not failed.retryable
    assert "Spark refuses 'spark.sql.shuffle.partitions' for a session" in failed.error


@spark_job
def use_a_view(spark: SparkSession, task: TaskContext) -> object:
    from pyspark.sql import SparkSession

    rows = task.config["rows"]
    spark.range(rows).createOrReplaceTempView("numbers")
    spark.createDataFrame([(1,)], "x long").createOrReplaceTempView("others")
    spark.conf.set("spark.sql.shuffle.partitions", str(rows))
    SIGNALS[f"made-{rows}"].set()
    assert SIGNALS[f"go-{rows}"].wait(DEADLINE_S)
    return {
        "own": spark.table("numbers").count(),
        "active": SparkSession.active() is spark,
        "get_active": SparkSession.getActiveSession() is spark,
        "built": SparkSession.builder.getOrCreate() is spark,
        "by_name": SparkSession.active().sql("SELECT count(*) FROM numbers").collect()[0][0],
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    }


async def test_views_settings_and_the_active_session_are_the_tasks_own(runner: LocalRunner, events: Events) -> None:
    SIGNALS.update({name: threading.Event() for name in ("made-3", "made-5", "go-3", "go-5")})
    tasks = {rows: order("use_a_view", rows, rows=rows) for rows in (3, 5)}
    for rows, task in tasks.items():
        await runner.start(task)
        await eventually(SIGNALS[f"made-{rows}"].is_set)
    for rows, task in tasks.items():
        SIGNALS[f"go-{rows}"].set()
        assert await events.result(task.task) == {
            "own": rows,
            "active": True,
            "get_active": True,
            "built": True,
            "by_name": rows,
            "partitions": str(rows),
        }


@spark_job
def use_a_view_in_threads(spark: SparkSession, task: TaskContext) -> object:
    from pyspark.sql import SparkSession

    rows = task.config["rows"]

    def make() -> None:
        session = SparkSession.builder.config("spark.sql.shuffle.partitions", str(rows)).getOrCreate()
        session.range(rows).createOrReplaceTempView("numbers")

    def look() -> object:
        session = SparkSession.active()
        return [
            session is spark,
            session.table("numbers").count(),
            session.conf.get("spark.sql.shuffle.partitions"),
            session.sparkContext.getLocalProperty("spark.scheduler.pool"),
        ]

    with contextlib.ExitStack() as mine:
        pool = SEEN.get("shared") or mine.enter_context(ThreadPoolExecutor(1))
        pool.submit(make).result()
        SIGNALS[f"made-{rows}"].set()
        assert SIGNALS[f"go-{rows}"].wait(DEADLINE_S)
        return pool.submit(look).result()


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
async def test_threads_of_a_task_have_its_session_and_its_pool_and_so_have_its_calls_in_a_shared_one(
    shared: bool, runner: LocalRunner, events: Events
) -> None:
    SEEN["shared"] = ThreadPoolExecutor(1) if shared else None
    SIGNALS.update({name: threading.Event() for name in ("made-3", "made-5", "go-3", "go-5")})
    tasks = {rows: order("use_a_view_in_threads", rows, rows=rows) for rows in (3, 5)}
    for rows, task in tasks.items():
        await runner.start(task)
        await eventually(SIGNALS[f"made-{rows}"].is_set)
    for rows, task in tasks.items():
        SIGNALS[f"go-{rows}"].set()
        pool = {3: "task-0", 5: "task-1"}[rows]
        assert await events.result(task.task) == [True, rows, str(rows), pool]
    if shared:
        SEEN["shared"].shutdown()


@spark_job
def leave_a_thread(_spark: SparkSession, _task: TaskContext) -> object:
    from pyspark.sql import SparkSession

    def ask_late() -> object:
        assert SIGNALS["ended"].wait(DEADLINE_S)
        return SparkSession.active()

    SEEN["pool"] = ThreadPoolExecutor(1)
    SEEN["late"] = [SEEN["pool"].submit(ask_late) for _ in range(2)]
    return None


async def test_threads_without_a_task_get_no_session_but_an_error(runner: LocalRunner, events: Events) -> None:
    from pyspark.sql import SparkSession

    SIGNALS["ended"] = threading.Event()
    task = order("leave_a_thread")
    await runner.start(task)
    assert await events.result(task.task) is None
    SIGNALS["ended"].set()
    with SEEN["pool"] as pool:
        for late in SEEN["late"]:
            with pytest.raises(ForeignThreadError, match=r"the task of thread '.*' has ended"):
                late.result()
        for ask in (SparkSession.builder.getOrCreate, SparkSession.active):
            for asked in (ask, pool.submit(ask).result):
                with pytest.raises(ForeignThreadError, match="belongs to no task"):
                    asked()


async def test_udfs_may_use_modules_that_only_this_process_has_on_its_path(
    runner: LocalRunner, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cospark_helpers.py").write_text("def double(value):\n    return 2 * value\n")
    (tmp_path / "cospark_helped.py").write_text(
        textwrap.dedent("""
            from airflow_provider.spark.job import spark_job
            from cospark_helpers import double

            @spark_job
            def run(spark, task):
                from pyspark.sql.functions import udf
                return spark.range(3, 4).select(udf(double, "long")("id")).first()[0]
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    helped = begins_at_once(LocalRunner(events, allowed=["cospark_helped"], settings=SETTINGS))
    task = TaskOrder(task=TaskId("helped", 0), entry_point="cospark_helped:run", epoch=Epoch(1))
    await helped.start(task)
    assert await events.last(task.task) == TaskFinished(order=task, result=6)
    assert await helped.close() == frozenset()


@spark_job
def stop_spark(spark: SparkSession, task: TaskContext) -> object:
    from pyspark.sql import SparkSession

    with spark:
        spark.range(1).count()
    SparkSession.builder.getOrCreate().stop()
    return spark.range(3).count()


async def test_a_task_cannot_stop_spark_for_the_others(
    runner: LocalRunner, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    task = order("stop_spark")
    await runner.start(task)
    assert await events.last(task.task) == TaskFinished(order=task, result=3)
    assert caplog.text.count("A task called stop() on its Spark session: ignored") == 2


@spark_job
def stop_the_context(spark: SparkSession, task: TaskContext) -> object:
    spark.sparkContext.stop()
    return spark.range(3).count()


async def test_after_a_task_stopped_the_context_the_next_task_gets_another_spark(
    runner: LocalRunner, events: Events
) -> None:
    stopping = order("stop_the_context")
    await runner.start(stopping)
    last = await events.last(stopping.task)
    assert isinstance(last, SparkLost)
    assert last.error.startswith("this worker's Spark has ended: its context was stopped")
    task = counting(5)
    await runner.start(task)
    assert isinstance(await events.last(task.task), TaskFinished)


async def test_a_task_that_starts_while_spark_still_stops_waits_for_that(runner: LocalRunner, events: Events) -> None:
    from pyspark import SparkContext

    first = counting(5)
    await runner.start(first)
    await events.last(first.task)
    context = SparkContext._active_spark_context
    assert context is not None
    java = context._jsc.sc()
    stopping = asyncio.ensure_future(asyncio.to_thread(java.stop))
    await eventually(java.isStopped, "Spark says so as soon as it begins to stop")
    task = counting(7, index=1)
    await runner.start(task)
    assert isinstance(await events.last(task.task), TaskFinished)
    await stopping


def listeners() -> list[str]:
    """The listeners on the bus that all sessions of the application share."""
    from pyspark import SparkContext

    there = SparkContext.getOrCreate()._jsc.sc().listenerBus().listeners()
    return sorted(there.get(index).getClass().getSimpleName() for index in range(there.size()))


@spark_job
def read_what_is_new(spark: SparkSession, task: TaskContext) -> object:
    session = spark.newSession() if task.config["own_session"] else spark
    return (
        session.readStream.format("rate")
        .load()
        .writeStream.format("noop")
        .trigger(availableNow=True)
        .option("checkpointLocation", task.checkpoint_location)
        .start()
    )


async def test_no_attempt_leaves_a_listener_behind(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    """It would get every event of every Spark job as long as the worker lives."""

    def attempts(number: int) -> Iterator[TaskOrder]:
        yield counting(5, number)
        for index in (2 * number, 2 * number + 1):
            folder = tmp_path / str(index)
            yield order("read_what_is_new", index, checkpoint=folder, own_session=bool(index % 2))

    first = counting(5, 99)
    await runner.start(first)
    assert isinstance(await events.last(first.task), TaskFinished)
    of_others = listeners().count("StreamingQueryListenerBus")  # of streams that could not be stopped in time
    before: list[str] = []
    for number in range(3):
        for task in attempts(number):
            await runner.start(task)
            assert isinstance(await events.last(task.task), TaskFinished)
        before = before or listeners()
    assert listeners() == before
    assert before.count("StreamingQueryListenerBus") == of_others


def java_objects() -> int:
    """How many objects the JVM keeps for this process (py4j's references)."""
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

    gc.collect()
    assert SparkContext._gateway is not None
    gateway = JavaObject("GATEWAY_SERVER", SparkContext._gateway._gateway_client).getGateway()
    return int(gateway.getBindings().size())


async def test_no_attempt_keeps_objects_of_the_jvm(runner: LocalRunner, events: Events) -> None:
    """They would keep each session, with all its caches."""
    kept: list[int] = []
    for number in range(4):
        for index in range(3):
            task = counting(5, 3 * number + index)
            await runner.start(task)
            assert isinstance(await events.last(task.task), TaskFinished)
        if kept:
            await eventually(lambda: java_objects() <= kept[0])
        else:
            kept.append(java_objects())


# --- the process


@spark_job
def print_on_stderr(spark: SparkSession, task: TaskContext) -> None:
    jvm: Any = spark._jvm
    for line in ("26/11/22 13:15:57 WARN Somebody: careful", "harmless"):
        jvm.java.lang.System.err.println(line)


async def test_what_the_jvm_prints_is_logged_with_its_own_level(
    runner: LocalRunner, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    """A host may take everything on stderr for errors."""
    caplog.set_level(logging.INFO)
    task = order("print_on_stderr")
    await runner.start(task)
    assert isinstance(await events.last(task.task), TaskFinished)
    await eventually(lambda: "harmless" in caplog.text)
    said = {record.getMessage(): record.levelname for record in caplog.records}
    assert said["Somebody: careful"] == "WARNING"
    assert said["harmless"] == "INFO"


async def test_a_lost_jvm_is_reported_for_all_its_tasks_and_the_next_task_gets_another(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    tasks = [holding(tmp_path, 0), holding(tmp_path, 1)]
    for lost in tasks:
        await runner.start(lost)
        await eventually(Path(lost.config["started"]).exists)
    for child in psutil.Process().children():
        if child.name() == "java" and "pyspark-shell" in child.cmdline():
            child.kill()
    told = [await events.last(lost.task) for lost in tasks]
    for last in told:
        assert isinstance(last, SparkLost)
        assert last.error.startswith("this worker's Spark has ended: its JVM's exit code is -9")
    assert len({last.spark for last in told if isinstance(last, SparkLost)}) == 1
    again = counting(5)
    await runner.start(again)
    assert isinstance(await events.last(again.task), TaskFinished)


@spark_job
def shut_the_gateway(spark: SparkSession, task: TaskContext) -> None:
    gateway: Any = spark.sparkContext._gateway
    gateway.shutdown()


async def test_a_jvm_that_answers_nobody_is_ended_and_the_next_task_gets_another(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    lost, rude = holding(tmp_path, 0), order("shut_the_gateway", 1)
    await runner.start(lost)
    await eventually(Path(lost.config["started"]).exists)
    jvms = [child for child in psutil.Process().children() if "pyspark-shell" in child.cmdline()]
    await runner.start(rude)
    last = await events.last(lost.task)
    assert not any(jvm.is_running() for jvm in jvms), "nothing that it ran goes on when its tasks may run elsewhere"
    assert isinstance(last, SparkLost)
    assert last.error.startswith("this worker's Spark has ended: its JVM did not answer any more")
    again = counting(5)
    await runner.start(again)
    assert isinstance(await events.last(again.task), TaskFinished)


def test_the_jvm_does_not_outlive_a_killed_process(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, sys, time
        from airflow_provider.spark.local.application.spark_application import APPLICATION, LocalSparkSettings
        from airflow_provider.spark.local.isolation.task_threads import bind_session
        spark = APPLICATION.running_for("script", LocalSparkSettings(master="local[1]")).root
        bind_session(spark)
        from pyspark.sql.functions import udf
        spark.range(1).select(udf(lambda x: x)("id")).collect()
        forked = os.fork()
        if not forked:
            time.sleep(600)
        print(forked, flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout is not None
            forked = psutil.Process(int(process.stdout.readline()))
            family = set(psutil.Process(process.pid).children(recursive=True)) - {forked}
            assert any(child.name() == "java" for child in family)
            assert all(
                connection.laddr.ip in {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
                for child in family
                for connection in child.net_connections(kind="inet")
                if connection.status == psutil.CONN_LISTEN
            )
        finally:
            os.kill(process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=DEADLINE_S)
    forked.kill()
    assert alive == []
    assert list(tmp_path.iterdir()) == []
