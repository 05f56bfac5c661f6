"""Tasks whose Spark is a real Spark Connect server: one for all tests of this module."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from begun import begins_at_once
from runner_bench import SEEN, SIGNALS, Events, order_of
from waiting import DEADLINE_S, SLOWNESS, eventually

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect import connection
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import (
    LastEvent,
    QueryStarted,
    SparkAbsent,
    SparkFaltered,
    SparkLost,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStopped,
)
from airflow_provider.spark.runners.connect import ConnectRunner
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ELSEWHERE: list[Any] = []

pytestmark = pytest.mark.filterwarnings(r"ignore:\[RETRIES_EXCEEDED\]")


def settings_of(server: LocalConnectServer, **conf: str) -> ConnectSettings:
    return ConnectSettings(server=ConnectServer.parse(server.url), conf=conf)


@pytest.fixture
async def make_runner(server: LocalConnectServer, events: Events) -> AsyncIterator[Callable[..., ConnectRunner]]:
    """Makes runners of workers; they are empty at the end."""
    SIGNALS.clear()
    SEEN.clear()
    made: list[ConnectRunner] = []

    def make(
        worker: str = "worker-1", settings: ConnectSettings | None = None, on_event: Events | None = None
    ) -> ConnectRunner:
        runner = begins_at_once(
            ConnectRunner(
                on_event or events,
                allowed=[__name__, "cospark_shipped"],
                settings=settings or settings_of(server),
                worker=worker,
                scope="cluster/group",
                tell_every_s=1.0,
            )
        )
        made.append(runner)
        return runner

    yield make
    for waiting in SIGNALS.values():
        waiting.set()
    for runner in made:
        assert await runner.close() == frozenset()
    assert "SPARK_REMOTE" not in os.environ, "the process may have its own Spark again"


def order(function: str, index: int = 0, **config: Any) -> TaskOrder:
    return order_of(__name__, function, index, **config)


@spark_job
def count(spark: SparkSession, task: TaskContext) -> dict[str, Any]:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col

    spark.range(task.config.get("rows", 10)).createOrReplaceTempView("mine")
    here = SparkSession.active()
    again = SparkSession.builder.getOrCreate()
    rows = spark.table("mine").filter(col("id") % 2 == 0).count()
    spark.stop()
    task.fence()
    return {
        "rows": rows,
        "same": here is spark and again is spark,
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "after": spark.range(1).count(),
    }


@spark_job
def touch_on(spark: SparkSession, task: TaskContext) -> None:
    """Works on the server for ever: a Python worker there keeps writing the time into a file."""
    from pyspark.sql.functions import udf

    file = task.config["file"]

    @udf("long")
    def write(_id):  # type: ignore[no-untyped-def]  # hints would say to Spark which kind of UDF it is
        while True:
            Path(file).write_text(str(time.time()))
            time.sleep(0.05)

    spark.range(0, 1, 1, 1).select(write("id")).collect()


@spark_job
def stream_on(spark: SparkSession, task: TaskContext) -> StreamingQuery:
    file = task.config["file"]

    def write(batch: DataFrame, number: int) -> None:
        Path(f"{file}.new").write_text(f"{number} {batch.count()} {os.getpid()}")
        Path(f"{file}.new").rename(file)

    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    query = rows.writeStream.foreachBatch(task.foreach_batch(write)).trigger(processingTime="200 milliseconds")
    return query.option("checkpointLocation", task.checkpoint_location).start()


@spark_job
def stream_elsewhere(spark: SparkSession, task: TaskContext) -> StreamingQuery:
    """Returns a query of a session that it has opened itself."""
    from pyspark.sql import SparkSession

    other = SparkSession.builder.remote(task.config["server"]).create()
    stream = other.readStream.format("rate").load().writeStream.format("noop")
    query = stream.option("checkpointLocation", task.checkpoint_location).start()
    ELSEWHERE.append(query)
    return query


@spark_job
def use_context(spark: SparkSession, task: TaskContext) -> int:
    return int(spark.sparkContext.defaultParallelism)


@spark_job
def share(spark: SparkSession, task: TaskContext) -> int:
    return task.cached("numbers", lambda: spark.range(7)).count()


async def touched(events: Events, order: TaskOrder) -> None:
    """Wait for the file that the task writes."""

    def is_there() -> bool:
        assert not [event for event in events.of(order.task) if isinstance(event, LastEvent)]
        return Path(order.config["file"]).exists()

    await eventually(is_there)


async def begins(runner: ConnectRunner, events: Events, stream: TaskOrder) -> None:
    """Start the stream; again if Spark gave up a Python worker, as it does after ten seconds even on a busy machine."""
    while True:
        await runner.start(stream)
        began = await events.wait_for(stream.task, QueryStarted, SparkFaltered)
        if isinstance(began, QueryStarted):
            return
        assert isinstance(began, SparkFaltered)
        assert "Python worker failed to connect back" in began.error
        events.heard.clear()


def is_quiet(file: Path) -> bool:
    """Whether nobody writes to it any more: for forty times as long as a writer pauses."""
    before = file.stat().st_mtime_ns
    time.sleep(2 * SLOWNESS)
    return file.stat().st_mtime_ns == before


async def test_tasks_that_run_at_once_have_separate_sessions(
    make_runner: Callable[..., ConnectRunner], events: Events, server: LocalConnectServer
) -> None:
    runner = make_runner(settings=settings_of(server, **{"spark.sql.shuffle.partitions": "3"}))
    few, many = order("count", 0, rows=10), order("count", 1, rows=1000)
    await runner.start(few)
    await runner.start(many)
    expected = {"same": True, "partitions": "3", "after": 1}
    assert await events.result(few.task) == {"rows": 5, **expected}
    assert await events.result(many.task) == {"rows": 500, **expected}
    await runner.start(order("share", 2))
    assert await events.result(TaskId("share", 2)) == 7


async def test_a_start_that_was_given_up_ends_nothing_of_the_next_worker(
    make_runner: Callable[..., ConnectRunner], events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = Events()
    slow, other = make_runner("worker-1", on_event=given_up), make_runner("worker-2")
    reached, late, real = threading.Event(), threading.Event(), connection.ServerConnection.server

    def server(self: connection.ServerConnection) -> connection.ConnectedServer:
        if not reached.is_set():
            reached.set()
            assert late.wait(DEADLINE_S)
        return real(self)

    monkeypatch.setattr(connection.ServerConnection, "server", server)
    moving = order("touch_on", file=str(tmp_path / "0"))
    await slow.start(moving)
    await eventually(reached.is_set)
    assert await slow.stop([moving.task], "it moves") == frozenset()
    assert isinstance(await given_up.last(moving.task), TaskStopped)
    await other.start(moving)
    await touched(events, moving)
    late.set()
    await slow.close()
    await eventually(lambda: not is_quiet(tmp_path / "0"), "the next worker's task goes on")
    assert not [event for event in events.of(moving.task) if isinstance(event, LastEvent)]
    assert await other.stop([moving.task], "the test is over") == frozenset()


async def test_stopping_a_task_ends_its_own_work_on_the_server_and_nothing_else(
    make_runner: Callable[..., ConnectRunner], events: Events, tmp_path: Path
) -> None:
    runner = make_runner()
    one, other = (order("touch_on", index, file=str(tmp_path / str(index))) for index in (0, 1))
    await runner.start(one)
    await runner.start(other)
    await touched(events, one)
    await touched(events, other)
    told = await events.wait_for(one.task, TaskProgressed)
    assert told.progress == JobCounts(stages=1, tasks=1)
    assert await runner.stop([one.task], "revoked") == frozenset()
    assert isinstance(await events.last(one.task), TaskStopped)
    await eventually(lambda: is_quiet(tmp_path / "0"))
    await eventually(lambda: not is_quiet(tmp_path / "1"))
    assert runner.running == {other.task}


async def test_a_stream_runs_beside_the_server_and_stops_with_its_task(
    make_runner: Callable[..., ConnectRunner], events: Events, tmp_path: Path
) -> None:
    file = tmp_path / "batch"
    runner = make_runner()
    stream = order_of(__name__, "stream_on", checkpoint=tmp_path / "checkpoint", file=str(file))
    await begins(runner, events, stream)

    def has_told_of_a_batch() -> bool:
        told = (event.progress for event in events.of(stream.task) if isinstance(event, TaskProgressed))
        return any(isinstance(progress, QueryProgress) for progress in told)

    await eventually(has_told_of_a_batch)
    await eventually(lambda: file.exists() and int(file.read_text().split()[0]) >= 2)
    assert int(file.read_text().split()[2]) != os.getpid()
    assert await runner.stop([stream.task], "revoked") == frozenset()
    assert isinstance(await events.last(stream.task), TaskStopped)
    await eventually(lambda: is_quiet(file))
    last = int(file.read_text().split()[0])

    again = Events()
    second = make_runner("worker-2", on_event=again)
    await begins(second, again, stream)
    await eventually(lambda: int(file.read_text().split()[0]) > last)


@pytest.mark.parametrize("bounded", [True, False])
async def test_a_query_of_a_session_that_nobody_knows_fails_its_task_and_is_stopped(
    make_runner: Callable[..., ConnectRunner], server: LocalConnectServer, events: Events, tmp_path: Path, bounded: bool
) -> None:
    """Its worker would never find it in the task's own session, and start it again and again beside itself."""
    task = order_of(__name__, "stream_elsewhere", checkpoint=tmp_path / "checkpoint", server=server.url)
    await make_runner().start(replace(task, bounded=bounded))
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert "query of another session" in last.error
    assert not last.retryable
    query = ELSEWHERE.pop()
    await eventually(lambda: not query.isActive)
    query._session.stop()


async def test_the_next_attempt_ends_what_the_last_one_has_left_on_the_server(
    make_runner: Callable[..., ConnectRunner], events: Events, tmp_path: Path
) -> None:
    """The last one's worker may have been killed, or paused and will wake: it can do nothing any more."""
    lost = make_runner()
    first = order("touch_on", 7, file=str(tmp_path / "first"))  # a task whose session no other test has used
    await lost.start(first)
    await touched(events, first)
    theirs = Events()
    second = TaskOrder(
        task=first.task,
        entry_point=first.entry_point,
        config={"file": str(tmp_path / "second")},
        epoch=first.epoch,
        attempt=first.attempt + 1,
    )
    await make_runner("worker-2", on_event=theirs).start(second)
    await touched(theirs, second)
    await eventually(lambda: is_quiet(tmp_path / "first"))
    failed = await events.last(first.task)
    assert isinstance(failed, TaskFailed)
    assert "has closed this task's session" in failed.error
    await eventually(lambda: not is_quiet(tmp_path / "second"))


async def test_the_modules_of_a_job_are_sent_to_the_server(
    make_runner: Callable[..., ConnectRunner], events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cospark_shipped.py").write_text(
        "from airflow_provider.spark.job import spark_job\n"
        "def plus_one(n): return n + 1\n"
        "@spark_job\n"
        "def add(spark, task):\n"
        "    from pyspark.sql.functions import udf\n"
        "    return [row[0] for row in spark.range(3).select(udf(plus_one, 'long')('id')).collect()]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = make_runner()
    shipped = order_of("cospark_shipped", "add")
    await runner.start(shipped)
    assert await events.result(shipped.task) == [1, 2, 3]
    sys.modules.pop("cospark_shipped")


async def test_a_task_that_uses_what_spark_connect_lacks_fails_for_good_with_the_reason(
    make_runner: Callable[..., ConnectRunner], events: Events
) -> None:
    runner = make_runner()
    task = order("use_context")
    await runner.start(task)
    failed = await events.last(task.task)
    assert isinstance(failed, TaskFailed)
    assert not failed.retryable
    assert "Spark Connect has no SparkContext, no RDDs and no py4j" in failed.error


@spark_job
def tell_settings(spark: SparkSession, task: TaskContext) -> object:
    from pyspark.sql.functions import udf

    @udf("string")
    def pool(_id):  # type: ignore[no-untyped-def]  # hints would say to Spark which kind of UDF it is
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return context.getLocalProperty("spark.scheduler.pool")

    return [spark.conf.get("spark.sql.shuffle.partitions"), spark.range(1).select(pool("id")).collect()[0][0]]


async def test_a_task_has_the_settings_of_its_job_and_runs_in_the_pool_that_it_names(
    make_runner: Callable[..., ConnectRunner], events: Events, server: LocalConnectServer
) -> None:
    """They come on top of the worker's settings, and override them."""
    runner = make_runner(settings=settings_of(server, **{"spark.sql.shuffle.partitions": "3"}))
    conf = {"spark.sql.shuffle.partitions": "17", "spark.scheduler.pool": "etl"}
    given, plain = replace(order("tell_settings", 0), session_conf=conf), order("tell_settings", 1)
    refused = replace(order("tell_settings", 2), session_conf={"spark.sql.shuffle.partitions": "many"})
    for task in (given, plain, refused):
        await runner.start(task)
    assert await events.result(given.task) == ["17", "etl"]
    assert await events.result(plain.task) == ["3", None]
    failed = await events.last(refused.task)
    assert isinstance(failed, TaskFailed)
    assert not failed.retryable
    assert "Spark refuses 'spark.sql.shuffle.partitions' for a session" in failed.error


async def test_a_worker_whose_settings_no_session_accepts_runs_nothing(
    make_runner: Callable[..., ConnectRunner], events: Events, server: LocalConnectServer
) -> None:
    runner = make_runner(settings=settings_of(server, **{"spark.executor.memory": "2g"}))
    task = order("count")
    await runner.start(task)
    absent = await events.last(task.task)
    assert isinstance(absent, SparkAbsent)
    assert "the worker's spark_conf: " in absent.error
    assert "refuses 'spark.executor.memory' for a session: [CANNOT_MODIFY" in absent.error


async def test_an_unreachable_server_is_reported_at_once(
    make_runner: Callable[..., ConnectRunner], events: Events
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    runner = make_runner(settings=ConnectSettings(server=ConnectServer(host="127.0.0.1", port=port)))
    task = order("count")
    await runner.start(task)
    absent = await events.last(task.task)
    assert isinstance(absent, SparkAbsent)
    assert f"no Spark Connect server answers at sc://127.0.0.1:{port}" in absent.error


@pytest.mark.thorough  # restarts a server
async def test_tasks_of_a_server_that_was_killed_are_lost_and_run_again_when_it_is_back(
    make_runner: Callable[..., ConnectRunner], events: Events, server: LocalConnectServer, tmp_path: Path
) -> None:
    runner = make_runner()
    task = order("touch_on", 0, file=str(tmp_path / "touched"))
    await runner.start(task)
    await touched(events, task)
    server.kill()
    server.start()
    lost = await events.last(task.task)
    assert isinstance(lost, SparkLost)
    assert lost.spark == 1
    assert "has ended under this worker's tasks" in lost.error
    events.heard.clear()
    again = order("count")
    await runner.start(again)
    assert isinstance(await events.last(again.task), TaskFinished)


@pytest.mark.thorough  # it waits long
async def test_a_server_that_stops_answering_is_given_up(
    make_runner: Callable[..., ConnectRunner],
    events: Events,
    server: LocalConnectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 1.0)
    monkeypatch.setattr(connection, "SLOW_S", 20.0)
    runner = make_runner()
    task = order("touch_on", 0, file=str(tmp_path / "touched"))
    await runner.start(task)
    await touched(events, task)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await eventually(lambda: runner.condition == "waiting for its server")
        lost = await events.last(task.task)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert isinstance(lost, SparkLost)
    assert "it has not answered for" in lost.error


@pytest.mark.thorough  # starts a server of its own
async def test_a_wrong_token_is_reported_but_not_shown(
    make_runner: Callable[..., ConnectRunner], events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalConnectServer(token="right-token", start_timeout_s=DEADLINE_S) as closed:
        host, port = "localhost", int(closed.url.rpartition(":")[2])
        wrong = ConnectSettings(server=ConnectServer(host=host, port=port), token="wrong-token")
        task = order("count")
        await make_runner(settings=wrong).start(task)
        absent = await events.last(task.task)
        assert isinstance(absent, SparkAbsent)
        assert "does not let this worker in" in absent.error
        assert "wrong-token" not in absent.error + caplog.text + repr(wrong)

        right = ConnectSettings(server=ConnectServer(host=host, port=port), token="right-token")
        let_in = order("count", 1)
        await make_runner(settings=right).start(let_in)
        assert isinstance(await events.last(let_in.task), TaskFinished)
