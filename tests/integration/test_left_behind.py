"""What a task leaves behind in the process and the Spark that it shares with others, and what it ends there."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from runner_bench import SEEN, SIGNALS, Events, holding, holding_udf, let_go, order_of
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.runner import SparkFaltered
from airflow_provider.spark.runners.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark_application")

order = partial(order_of, __name__)


def kept_in_memory(spark: SparkSession) -> int:
    return int(spark._jsparkSession.sparkContext().getPersistentRDDs().size())


def log_level(spark: SparkSession) -> str:
    jvm: Any = spark._jvm
    return str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString())


@spark_job
def see_what_is_cached(spark: SparkSession, task: TaskContext) -> Any:
    return kept_in_memory(spark)


@spark_job
def change_the_process(spark: SparkSession, task: TaskContext) -> Any:
    try:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    except ValueError as refused:
        SEEN["refused"] = str(refused)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1e6)
    os.environ["COSPARK_LEFT"] = "by a task"
    os.chdir(task.config["folder"])
    sys.path.append("left by a task")
    sys.setrecursionlimit(sys.getrecursionlimit() + 7)
    json.dumps = partial(json.dumps)
    SEEN["context"] = spark.sparkContext
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.setCheckpointDir(task.config["folder"])
    SEEN["child"] = subprocess.Popen(["sleep", "1000000"])
    spark.range(5).createOrReplaceGlobalTempView("left")
    spark.newSession().range(3, 8).cache().count()
    SEEN["held"] = spark.sparkContext.parallelize([1]).cache()  # Spark drops what nobody holds, whenever it likes
    SEEN["held"].count()
    SEEN["cached"] = kept_in_memory(spark)
    return None


@spark_job
def see_the_process(spark: SparkSession, task: TaskContext) -> Any:
    timer = signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    return [
        timer,
        os.environ["COSPARK_LEFT"],
        str(Path.cwd()),
        sys.path[-1],
        sys.getrecursionlimit(),
        type(json.dumps).__name__,
        log_level(spark),
        str(spark.sparkContext.getCheckpointDir()).startswith(f"file:{task.config['folder']}/"),
        spark.table("global_temp.left").count(),
        kept_in_memory(spark),
    ]


async def test_what_belongs_to_the_process_stays_when_a_task_has_ended(
    runner: LocalRunner, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path.cwd())  # restored at the end
    monkeypatch.setenv("COSPARK_LEFT", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(json, "dumps", json.dumps)
    limit = sys.getrecursionlimit()
    handler = signal.getsignal(signal.SIGUSR1)
    for name in ("change_the_process", "see_the_process"):
        task = order(name, folder=str(tmp_path))
        await runner.start(task)
        last = await events.result(task.task)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    sys.setrecursionlimit(limit)
    child = SEEN["child"]
    goes_on = child.poll() is None
    child.kill()
    child.wait()
    of_process = [True, "by a task", str(tmp_path), "left by a task", limit + 7, "partial"]
    assert last == [*of_process, "ERROR", True, 5, SEEN["cached"]]
    assert goes_on
    SEEN["context"].setLogLevel("WARN")  # the JVM goes on when Spark has ended
    SEEN["held"].unpersist(blocking=True)  # other tests count what is cached
    assert "only works in main thread" in SEEN["refused"]
    assert signal.getsignal(signal.SIGUSR1) is handler


@spark_job
def cache(spark: SparkSession, task: TaskContext) -> Any:
    spark.range(task.index, 100).cache().count()
    spark.sql(f"CACHE TABLE numbers AS SELECT {task.index} AS x")
    shared = task.cached("shared", lambda: spark.range(1_000).selectExpr("id", "uuid() AS name"))
    return [kept_in_memory(spark), shared.count()]


async def test_data_that_a_task_has_cached_ends_with_it_but_not_what_all_share(
    runner: LocalRunner, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await runner.start(order("see_what_is_cached", 0))
    before = await events.result(order("see_what_is_cached", 0).task)
    assert isinstance(before, int)
    for index in range(3):
        task = order("cache", index)
        await runner.start(task)
        assert await events.result(task.task) == [before + 3, 1_000], "its own two, and the shared one"
    assert "is cached again" not in caplog.text


@spark_job
def cache_the_same(spark: SparkSession, task: TaskContext) -> Any:
    data = spark.range(1_234).cache()
    data.count()
    SIGNALS[f"cached-{task.index}"].set()
    assert SIGNALS[f"go-{task.index}"].wait(DEADLINE_S)
    return [data.storageLevel.useMemory, data.count()]


async def test_what_two_tasks_have_cached_ends_with_the_first_and_is_read_again(
    runner: LocalRunner, events: Events
) -> None:
    SIGNALS.update({f"{name}-{index}": threading.Event() for name in ("cached", "go") for index in range(2)})
    tasks = [order("cache_the_same", index) for index in range(2)]
    for task in tasks:
        await runner.start(task)
        await eventually(SIGNALS[f"cached-{task.task.index}"].is_set)
    for task, still in zip(tasks, (True, False), strict=True):
        SIGNALS[f"go-{task.task.index}"].set()
        assert await events.result(task.task) == [still, 1_234]


@spark_job
def work_beside(spark: SparkSession, task: TaskContext) -> object:
    hold = holding_udf(task.config["started"], task.config["held"])
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    spark.sparkContext.setJobGroup("same", "of two tasks", interruptOnCancel=True)
    spark.sparkContext.addJobTag("same")
    row = spark.range(1).select(hold("id")).collect()[0]
    goes_on = query.isActive
    query.stop()
    return [row[0], goes_on]


@spark_job
def cancel_everything(spark: SparkSession, task: TaskContext) -> object:
    context = spark.sparkContext
    context.setJobGroup("same", "of two tasks")
    context.addJobTag("same")

    def ends_its_own(cancel: Callable[[], object]) -> bool:
        with ThreadPoolExecutor(1) as pool:
            endless = pool.submit(spark.range(10**15).selectExpr("sum(id % 7)").collect)
            while not endless.done():
                cancel()
                time.sleep(0.05)
            return "[SPARK_JOB_CANCELLED]" in str(endless.exception())

    spark.stop()
    for query in spark.streams.active:
        query.stop()
    cancels = (
        context.cancelAllJobs,
        partial(context.cancelJobGroup, "same"),
        partial(context.cancelJobsWithTag, "same"),
    )
    return [ends_its_own(cancel) for cancel in cancels]


async def test_a_task_cancels_and_stops_only_its_own(
    runner: LocalRunner, events: Events, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beside = order("work_beside", **holding(tmp_path, 0).config)
    await runner.start(beside)
    await eventually(Path(beside.config["started"]).exists)
    task = order("cancel_everything")
    await runner.start(task)
    assert await events.result(task.task) == [True, True, True]
    let_go(beside)
    assert await events.result(beside.task) == [0, True]
    assert "A task called cancelAllJobs(): only its own are cancelled" in caplog.text


@spark_job
def cancel_all_by_way_of_the_jvm(spark: SparkSession, task: TaskContext) -> None:
    spark._jsparkSession.sparkContext().cancelAllJobs()


async def test_nobody_pays_for_what_a_task_cancels_by_way_of_the_jvm(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    beside = order("work_beside", **holding(tmp_path, 0).config)
    await runner.start(beside)
    await eventually(Path(beside.config["started"]).exists)
    task = order("cancel_all_by_way_of_the_jvm")
    await runner.start(task)
    assert await events.result(task.task) is None
    faltered = await events.last(beside.task)
    assert isinstance(faltered, SparkFaltered)
    assert "cancellation of all jobs" in faltered.error
