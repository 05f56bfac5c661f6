"""The local runner with a real Spark: what a worker and a job's author may count on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider.membership.model import PLANNER_INDEX, Epoch, TaskId
from airflow_provider.spark.application import APPLICATION, LocalSparkSettings
from airflow_provider.spark.job import FencedError, spark_job
from airflow_provider.spark.local import LocalRunner
from airflow_provider.spark.runner import (
    LAST_EVENTS,
    QueryStarted,
    RunnerClosedError,
    RunnerEvent,
    StillRunningError,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DEADLINE_S = 120.0
SETTINGS = LocalSparkSettings(master="local[2]")

_signals: dict[str, threading.Event] = {}
_seen: dict[str, object] = {}


class Events:
    """Hears a runner's events and lets a test wait for the one it needs."""

    def __init__(self) -> None:
        self.heard: list[RunnerEvent] = []
        self._changed = asyncio.Event()

    def __call__(self, event: RunnerEvent) -> None:
        self.heard.append(event)
        self._changed.set()

    def of(self, task: TaskId) -> list[RunnerEvent]:
        return [event for event in self.heard if event.order.task == task]

    async def wait_for(self, task: TaskId, *kinds: type) -> RunnerEvent:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            self._changed.clear()
            for event in self.of(task):
                if isinstance(event, kinds):
                    return event
                assert not isinstance(event, LAST_EVENTS), f"instead of {kinds}: {event}"
            await asyncio.wait_for(self._changed.wait(), deadline - time.monotonic())

    async def last(self, task: TaskId) -> RunnerEvent:
        return await self.wait_for(task, *LAST_EVENTS)


@pytest.fixture(scope="module", autouse=True)
def spark_application() -> Iterator[None]:
    """One Spark for the module: the runners of the tests share it."""
    APPLICATION.session_for("the test module", SETTINGS)
    yield
    APPLICATION.release("the test module")


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
async def runner(events: Events) -> AsyncIterator[LocalRunner]:
    _signals.clear()
    _seen.clear()
    runner = LocalRunner(events, allowed=[__name__], settings=SETTINGS)
    yield runner
    for waiting in _signals.values():
        waiting.set()
    assert await runner.close() == frozenset()


def order(function: str, index: int = 0, *, checkpoint: Path | None = None, **config: object) -> TaskOrder:
    return TaskOrder(
        task=TaskId(function.replace("_", "-"), index),
        entry_point=f"{__name__}:{function}",
        config=config,
        epoch=Epoch(7),
        checkpoint_location=str(checkpoint or ""),
        max_tasks=3,
    )


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        await asyncio.sleep(0.02)


# --- bounded tasks


@spark_job
def count_rows(spark, task):
    return {"rows": spark.range(task.config["rows"]).count(), "index": task.index, "epoch": task.epoch}


async def test_a_bounded_task_starts_and_finishes_with_its_result(runner, events):
    task = order("count_rows", 2, rows=1000)
    await runner.start(task)
    last = await events.last(task.task)
    assert events.heard == [TaskStarted(order=task), last]
    assert last == TaskFinished(order=task, result={"rows": 1000, "index": 2, "epoch": 7})
    assert runner.running == frozenset()


@spark_job
def meet(spark, task):
    """Return only if another task runs its Spark job at the same time."""
    from pyspark.sql.functions import udf

    own, other = task.config["own"], task.config["other"]

    @udf("boolean")
    def wait_for_other(_id):
        Path(own).touch()
        deadline = time.monotonic() + 30
        while not Path(other).exists():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    return spark.range(1).select(wait_for_other("id")).first()[0]


async def test_two_tasks_run_at_the_same_time(runner, events, tmp_path):
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    first = order("meet", 0, own=names[0], other=names[1])
    second = order("meet", 1, own=names[1], other=names[0])
    await runner.start(first)
    await runner.start(second)
    assert (await events.last(first.task)).result is True
    assert (await events.last(second.task)).result is True


@spark_job
def hold_a_core(spark, task):
    """A Spark job that lasts until its file is removed."""
    from pyspark.sql.functions import udf

    started, held = task.config["started"], task.config["held"]

    @udf("long")
    def hold(value):
        Path(started).touch()
        while Path(held).exists():
            time.sleep(0.01)
        return value

    return spark.range(1).select(hold("id")).first()[0]


def holding(tmp_path: Path, index: int) -> TaskOrder:
    held = tmp_path / f"held-{index}"
    held.touch()
    return order("hold_a_core", index, started=str(tmp_path / f"started-{index}"), held=str(held))


def let_go(task: TaskOrder) -> None:
    Path(task.config["held"]).unlink()


async def test_one_task_is_stopped_alone_while_the_other_goes_on(runner, events, tmp_path):
    first, second = holding(tmp_path, 0), holding(tmp_path, 1)
    for task in (first, second):
        await runner.start(task)
        await until(Path(task.config["started"]).exists)

    assert await runner.stop([first.task], "moved to another worker") == frozenset()
    assert events.heard[-1] == TaskStopped(order=first, reason="moved to another worker")
    assert runner.running == {second.task}

    let_go(second)
    assert await events.last(second.task) == TaskFinished(order=second, result=0)


async def test_a_stopped_task_can_be_started_again(runner, events, tmp_path):
    task = holding(tmp_path, 0)
    await runner.start(task)
    await until(Path(task.config["started"]).exists)
    with pytest.raises(StillRunningError, match="hold-a-core:0 is still running"):
        await runner.start(task)
    await runner.stop([task.task], "revoked")
    let_go(task)
    await runner.start(task)
    await until(lambda: TaskFinished(order=task, result=0) in events.heard)


@spark_job
def fail_with_cause(spark, task):
    try:
        spark.sql("SELECT * FROM no_such_table").count()
    except Exception as error:
        raise RuntimeError("the ingest of orders failed") from error


async def test_a_failing_task_tells_its_error_and_the_cause(runner, events):
    task = order("fail_with_cause")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert last.retryable
    lines = last.error.splitlines()
    assert lines[0] == "RuntimeError: the ingest of orders failed"
    assert "caused by AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]" in last.error
    assert "in fail_with_cause" in last.traceback
    assert "attempt.py" not in last.traceback


@spark_job
def fail_in_a_udf(spark, task):
    from pyspark.sql.functions import udf

    @udf("long")
    def divide(value):
        return 1 // value

    return spark.range(1).select(divide("id")).first()[0]


async def test_an_error_inside_a_python_worker_is_named(runner, events):
    task = order("fail_in_a_udf")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert "ZeroDivisionError" in last.error


@spark_job
def return_a_data_frame(spark, task):
    return {"rows": spark.range(3)}


async def test_a_result_that_json_cannot_carry_fails_the_task(runner, events):
    task = order("return_a_data_frame")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert not last.retryable
    assert "$.rows is a pyspark.sql" in last.error
    assert "return None, or a small dict" in last.error


# --- planners


@spark_job(plan=lambda job: [{"partition": row.id} for row in job.spark.range(job.max_tasks).collect()])
def planned_with_spark(spark, task):
    return None


async def test_a_plan_may_look_at_data(runner, events):
    task = order("planned_with_spark", PLANNER_INDEX)
    await runner.start(task)
    assert (await events.last(task.task)).result == [{"partition": 0}, {"partition": 1}, {"partition": 2}]


# --- sessions


@spark_job
def use_a_view(spark, task):
    from pyspark.sql import SparkSession

    rows = task.config["rows"]
    spark.range(rows).createOrReplaceTempView("numbers")
    spark.createDataFrame([(1,)], "x long").createOrReplaceTempView("others")
    spark.conf.set("spark.sql.shuffle.partitions", str(rows))
    _signals[f"made-{rows}"].set()
    assert _signals[f"go-{rows}"].wait(DEADLINE_S)
    return {
        "own": spark.table("numbers").count(),
        "active": SparkSession.active() is spark,
        "get_active": SparkSession.getActiveSession() is spark,
        "built": SparkSession.builder.getOrCreate() is spark,
        "by_name": SparkSession.active().sql("SELECT count(*) FROM numbers").first()[0],
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    }


async def test_views_settings_and_the_active_session_are_the_tasks_own(runner, events):
    _signals.update({name: threading.Event() for name in ("made-3", "made-5", "go-3", "go-5")})
    tasks = {rows: order("use_a_view", rows, rows=rows) for rows in (3, 5)}
    for rows, task in tasks.items():
        await runner.start(task)
        await until(_signals[f"made-{rows}"].is_set)
    for rows, task in tasks.items():
        _signals[f"go-{rows}"].set()
        assert (await events.last(task.task)).result == {
            "own": rows,
            "active": True,
            "get_active": True,
            "built": True,
            "by_name": rows,
            "partitions": str(rows),
        }


@spark_job
def leave_a_query_behind(spark, task):
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    _seen["query"] = query
    return


async def test_a_query_that_a_task_leaves_behind_is_stopped(runner, events):
    task = order("leave_a_query_behind")
    await runner.start(task)
    assert await events.last(task.task) == TaskFinished(order=task, result=None)
    assert not _seen["query"].isActive


@spark_job
def use_a_view_in_batches(spark, task):
    from pyspark.sql import SparkSession

    spark.range(4).createOrReplaceTempView("numbers")

    def look(batch, batch_id):
        _seen["rows"] = SparkSession.active().table("numbers").count()

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(look).trigger(once=True).start()


async def test_batches_see_the_views_of_their_task(runner, events, tmp_path):
    task = order("use_a_view_in_batches")
    await runner.start(task)
    assert isinstance(await until_last(events, task.task), TaskFinished)
    assert _seen == {"rows": 4}


async def test_udfs_may_use_modules_that_only_this_process_has_on_its_path(runner, events, tmp_path, monkeypatch):
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
    helped = LocalRunner(events, allowed=["cospark_helped"], settings=SETTINGS)
    task = TaskOrder(task=TaskId("helped", 0), entry_point="cospark_helped:run", epoch=Epoch(1))
    await helped.start(task)
    assert await events.last(task.task) == TaskFinished(order=task, result=6)
    assert await helped.close() == frozenset()


@spark_job
def stop_spark(spark, task):
    from pyspark.sql import SparkSession

    with spark:
        spark.range(1).count()
    SparkSession.builder.getOrCreate().stop()
    return spark.range(3).count()


async def test_a_task_cannot_stop_spark_for_the_others(runner, events, caplog):
    task = order("stop_spark")
    await runner.start(task)
    assert await events.last(task.task) == TaskFinished(order=task, result=3)
    assert caplog.text.count("A task called stop() on its Spark session: ignored") == 2


@spark_job
def stop_the_context(spark, task):
    spark.sparkContext.stop()
    return spark.range(3).count()


async def test_after_spark_was_stopped_all_the_same_the_next_task_gets_another(runner, events):
    stopping = order("stop_the_context")
    await runner.start(stopping)
    last = await events.last(stopping.task)
    assert isinstance(last, TaskFailed)
    assert last.retryable
    assert last.error.startswith("SparkGoneError: this worker's Spark has ended: a task has stopped its SparkContext")
    task = order("count_rows", rows=5)
    await runner.start(task)
    assert isinstance(await events.last(task.task), TaskFinished)


# --- stopping and fencing


@spark_job
def work_in_python(spark, task):
    _signals["started"].set()
    while not task.wait(0.01):
        pass
    _seen["stopping"] = task.stopping
    try:
        task.fence()
    except FencedError as error:
        _seen["fence"] = str(error)
    return "half of the work"


async def test_python_work_sees_that_it_is_stopped_and_its_fence_raises(runner, events):
    _signals["started"] = threading.Event()
    task = order("work_in_python")
    await runner.start(task)
    await until(_signals["started"].is_set)
    assert await runner.stop([task.task], "revoked by the leader") == frozenset()
    assert await events.last(task.task) == TaskStopped(order=task, reason="revoked by the leader")
    assert _seen == {"stopping": True, "fence": "the task was told to stop: revoked by the leader"}


@spark_job
def do_not_listen(spark, task):
    _signals["started"].set()
    assert _signals["end"].wait(DEADLINE_S)
    spark.range(10).count()
    return "never used"


async def test_a_task_that_does_not_listen_is_reported_as_still_running(runner, events, caplog):
    _signals.update(started=threading.Event(), end=threading.Event())
    task = order("do_not_listen")
    await runner.start(task)
    await until(_signals["started"].is_set)
    assert await runner.stop([task.task], "revoked", timeout_s=0.1) == {task.task}
    assert "Still running 0.1 s after they were told to stop (revoked): do-not-listen:0" in caplog.text
    assert runner.running == {task.task}
    _signals["end"].set()
    assert await events.last(task.task) == TaskStopped(order=task, reason="revoked")


@spark_job
def write_slowly(spark, task):
    def write(batch, batch_id):
        _signals["writing"].set()
        assert _signals["end"].wait(DEADLINE_S)

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


async def test_a_batch_that_does_not_end_is_reported_as_still_running(runner, events, tmp_path):
    _signals.update(writing=threading.Event(), end=threading.Event())
    task = order("write_slowly", checkpoint=tmp_path)
    await runner.start(task)
    await until(_signals["writing"].is_set)
    assert await runner.stop([task.task], "revoked", timeout_s=0.5) == {task.task}
    _signals["end"].set()
    assert await runner.stop([task.task], "once more") == frozenset()
    assert events.heard[-1] == TaskStopped(order=task, reason="revoked")


async def test_closing_stops_everything(events, tmp_path):
    runner = LocalRunner(events, allowed=[__name__], settings=SETTINGS)
    tasks = [holding(tmp_path, 0), order("count_rows", rows=10**12)]
    for task in tasks:
        await runner.start(task)
        await events.wait_for(task.task, TaskStarted)
    assert await runner.close() == frozenset()
    assert runner.running == frozenset()
    assert {event.order.task for event in events.heard if isinstance(event, TaskStopped)} == {t.task for t in tasks}
    with pytest.raises(RunnerClosedError):
        await runner.start(tasks[0])


# --- streaming


@spark_job
def stream_files(spark, task):
    rows = spark.readStream.schema("value long").option("maxFilesPerTrigger", 1).json(task.config["source"])
    sink = Path(task.config["sink"])

    def write(batch, batch_id):
        batch.write.mode("overwrite").json(str(sink / f"batch={batch_id}"))

    return (
        rows.writeStream.foreachBatch(task.foreach_batch(write))
        .option("checkpointLocation", task.checkpoint_location)
        .start()
    )


def add_rows(source: Path, *values: int) -> None:
    source.mkdir(exist_ok=True)
    for value in values:
        hidden = source / f".{value}"
        hidden.write_text(f'{{"value": {value}}}\n')
        hidden.rename(source / f"{value}.json")


def rows_in(sink: Path) -> list[int]:
    lines = [line for part in sink.glob("batch=*/part-*") for line in part.read_text().splitlines()]
    return sorted(int(line.split(":")[1].strip(" }")) for line in lines)


async def test_a_query_that_moves_goes_on_from_its_checkpoint(runner, events, tmp_path):
    source, sink = tmp_path / "source", tmp_path / "sink"
    add_rows(source, *range(5))
    task = order("stream_files", checkpoint=tmp_path / "checkpoint", source=str(source), sink=str(sink))
    await runner.start(task)
    first_query = await events.wait_for(task.task, QueryStarted)
    await until(lambda: len(rows_in(sink)) >= 2)
    assert await runner.stop([task.task], "moved") == frozenset()
    assert events.heard[-1] == TaskStopped(order=task, reason="moved")

    add_rows(source, *range(5, 8))
    others = Events()
    other = LocalRunner(others, allowed=[__name__], settings=SETTINGS)
    try:
        await other.start(task)
        assert (await others.wait_for(task.task, QueryStarted)).query_id == first_query.query_id
        await until(lambda: rows_in(sink) == list(range(8)))
    finally:
        assert await other.close() == frozenset()
    assert isinstance(others.heard[-1], TaskStopped)
    assert rows_in(sink) == list(range(8))


@spark_job
def stream_what_is_there(spark, task):
    rows = spark.readStream.schema("value long").json(task.config["source"])
    return (
        rows.writeStream.format("json")
        .option("path", task.config["sink"])
        .option("checkpointLocation", task.checkpoint_location)
        .trigger(availableNow=True)
        .start()
    )


async def test_a_query_that_ends_by_itself_finishes_its_task(runner, events, tmp_path):
    add_rows(tmp_path / "source", 1, 2)
    task = order(
        "stream_what_is_there",
        checkpoint=tmp_path / "checkpoint",
        source=str(tmp_path / "source"),
        sink=str(tmp_path / "sink"),
    )
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFinished)
    assert last.result["last_batch"] == 0


@spark_job
def stream_and_fail(spark, task):
    def write(batch, batch_id):
        raise KeyError("no such customer")

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


async def test_a_query_that_fails_fails_its_task(runner, events, tmp_path):
    task = order("stream_and_fail", checkpoint=tmp_path)
    await runner.start(task)
    await events.wait_for(task.task, QueryStarted)
    last = await until_last(events, task.task)
    assert isinstance(last, TaskFailed)
    assert last.retryable
    assert "no such customer" in last.error


async def until_last(events: Events, task: TaskId) -> RunnerEvent:
    await until(lambda: isinstance((events.of(task) or [None])[-1], LAST_EVENTS))
    return events.of(task)[-1]


class EndingLease:
    """A lease that a test can end."""

    def __init__(self) -> None:
        self.grant = 1

    def check(self, grant: int) -> None:
        if grant != self.grant:
            raise FencedError("the lease is over")


async def test_no_batch_is_written_after_the_lease_is_over(events, tmp_path):
    lease = EndingLease()
    runner = LocalRunner(events, allowed=[__name__], lease=lease, settings=SETTINGS)
    source, sink = tmp_path / "source", tmp_path / "sink"
    add_rows(source, 0)
    task = order("stream_files", checkpoint=tmp_path / "checkpoint", source=str(source), sink=str(sink))
    try:
        await runner.start(task)
        await until(lambda: rows_in(sink) == [0])
        lease.grant += 1
        add_rows(source, 1)
        last = await until_last(events, task.task)
    finally:
        await runner.close()
    assert isinstance(last, TaskStopped), "no failure of the task: another worker may own it by now"
    assert last.reason == "the lease is over"
    assert rows_in(sink) == [0]


# --- the process


async def test_a_lost_jvm_fails_its_tasks_and_the_next_task_gets_a_new_one(runner, events, tmp_path):
    lost = holding(tmp_path, 0)
    await runner.start(lost)
    await until(Path(lost.config["started"]).exists)
    for child in psutil.Process().children():
        if child.name() == "java" and "pyspark-shell" in child.cmdline():
            child.kill()
    last = await events.last(lost.task)
    assert isinstance(last, TaskFailed)
    assert last.retryable
    assert last.error.startswith("SparkGoneError: this worker's Spark has ended: its JVM's exit code is -9")
    again = order("count_rows", rows=5)
    await runner.start(again)
    assert isinstance(await events.last(again.task), TaskFinished)


def test_the_jvm_does_not_outlive_a_killed_process(tmp_path):
    script = textwrap.dedent("""
        import asyncio, sys
        from airflow_provider.spark.application import APPLICATION, LocalSparkSettings
        spark = APPLICATION.session_for("script", LocalSparkSettings(master="local[1]"))
        from pyspark.sql.functions import udf
        spark.range(1).select(udf(lambda x: x)("id")).collect()
        print("ready", flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            family = psutil.Process(process.pid).children(recursive=True)
            assert any(child.name() == "java" for child in family)
            assert all(
                connection.laddr.ip in {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
                for child in family
                for connection in child.net_connections(kind="inet")
                if connection.status == psutil.CONN_LISTEN
            )
        finally:
            os.kill(process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    assert list(tmp_path.iterdir()) == []
