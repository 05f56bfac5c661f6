"""Streaming queries with the local runner and a real Spark: they move, end, fail, and never write without a lease."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from begun import begins_at_once
from runner_bench import SEEN, SETTINGS, SIGNALS, Events, order_of
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import FencedError, TaskContext, spark_job
from airflow_provider.spark.runner import QueryStarted, TaskFailed, TaskFinished, TaskStopped
from airflow_provider.spark.runners.attached_tasks import attached_attempt
from airflow_provider.spark.runners.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("spark_application")

order = partial(order_of, __name__)


@spark_job
def stream_files(spark: SparkSession, task: TaskContext) -> object:
    rows = spark.readStream.schema("value long").option("maxFilesPerTrigger", 1).json(task.config["source"])
    sink = Path(task.config["sink"])

    def write(batch: DataFrame, batch_id: int) -> None:
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


async def test_a_query_that_moves_goes_on_from_its_checkpoint(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    add_rows(source, *range(5))
    task = order("stream_files", checkpoint=tmp_path / "checkpoint", source=str(source), sink=str(sink))
    await runner.start(task)
    first_query = await events.wait_for(task.task, QueryStarted)
    await eventually(lambda: len(rows_in(sink)) >= 2)
    assert await runner.stop([task.task], "moved") == frozenset()
    assert events.heard[-1] == TaskStopped(order=task, reason="moved")

    add_rows(source, *range(5, 8))
    others = Events()
    other = begins_at_once(LocalRunner(others, allowed=[__name__], settings=SETTINGS))
    try:
        await other.start(task)
        assert (await others.wait_for(task.task, QueryStarted)).query_id == first_query.query_id
        await eventually(lambda: rows_in(sink) == list(range(8)))
    finally:
        assert await other.close() == frozenset()
    assert isinstance(others.heard[-1], TaskStopped)
    assert rows_in(sink) == list(range(8))


@spark_job
def stream_in_another_session(spark: SparkSession, task: TaskContext) -> object:
    rows = spark.newSession().readStream.schema("value long").json(task.config["source"])
    writing = rows.writeStream.format("noop").trigger(processingTime="1 hour")
    SEEN["query"] = writing.option("checkpointLocation", task.checkpoint_location).start()
    return SEEN["query"]


async def test_a_query_of_a_session_that_the_task_made_is_stopped_too(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    add_rows(tmp_path / "source", 1)
    task = order("stream_in_another_session", checkpoint=tmp_path / "checkpoint", source=str(tmp_path / "source"))
    await runner.start(task)
    await events.wait_for(task.task, QueryStarted)
    await eventually(lambda: SEEN["query"].lastProgress, "it has nothing to do for an hour")
    assert await runner.stop([task.task], "moved") == frozenset()
    assert events.heard[-1] == TaskStopped(order=task, reason="moved")


@spark_job
def stream_what_is_there(spark: SparkSession, task: TaskContext) -> object:
    rows = spark.readStream.schema("value long").json(task.config["source"])

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.json(task.config["sink"])
        task.wrote("numbers", batch.count())

    return (
        rows.writeStream.foreachBatch(task.foreach_batch(write))
        .option("checkpointLocation", task.checkpoint_location)
        .trigger(availableNow=True)
        .start()
    )


async def test_a_query_that_ends_by_itself_finishes_its_task(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
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
    assert last.wrote == (("numbers", "numbers", 2),), "called in a thread of Spark"


@spark_job
def stream_and_fail(spark: SparkSession, task: TaskContext) -> object:
    def write(batch: DataFrame, batch_id: int) -> None:
        raise KeyError("no such customer")

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


async def test_a_query_that_fails_fails_its_task(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    task = order("stream_and_fail", checkpoint=tmp_path)
    await runner.start(task)
    await events.wait_for(task.task, QueryStarted)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert last.retryable
    assert "no such customer" in last.error


@spark_job
def leave_a_query_behind(spark: SparkSession, task: TaskContext) -> None:
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    SEEN["query"] = query
    return


async def test_a_query_that_a_task_leaves_behind_is_stopped_and_fails_it(runner: LocalRunner, events: Events) -> None:
    task = order("leave_a_query_behind")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert ("let run() return the query that it starts" in last.error, last.retryable) == (True, False), last.error
    assert not SEEN["query"].isActive


@spark_job
def leave_a_named_query_behind(spark: SparkSession, task: TaskContext) -> object:
    SEEN["query"] = spark.readStream.format("rate").load().writeStream.format("noop").queryName("rates").start()
    return {"rows": 1}


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("stream_files", "run() has returned a streaming query that does not end by itself"),
        ("stream_in_another_session", "run() has returned a streaming query that does not end by itself"),
        ("leave_a_named_query_behind", "run() has left streaming queries running: rates"),
    ],
)
async def test_a_bounded_task_fails_if_it_leaves_a_query_without_end(
    runner: LocalRunner, events: Events, tmp_path: Path, job: str, why: str
) -> None:
    """Otherwise whoever waits for the end of the job would wait for ever."""
    SEEN.clear()
    (tmp_path / "source").mkdir()
    task = order(job, checkpoint=tmp_path / "c", source=str(tmp_path / "source"), sink=str(tmp_path / "sink"))
    await runner.start(replace(task, bounded=True))
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert (why in last.error, 'kind="streaming"' in last.error, last.retryable) == (True, True, False), last.error
    assert "query" not in SEEN or not SEEN["query"].isActive


async def test_a_query_that_ends_by_itself_finishes_a_bounded_task(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    add_rows(tmp_path / "source", 1, 2)
    source, sink = str(tmp_path / "source"), str(tmp_path / "sink")
    task = order("stream_what_is_there", checkpoint=tmp_path / "checkpoint", source=source, sink=sink)
    await runner.start(replace(task, bounded=True))
    assert isinstance(await events.last(task.task), TaskFinished)


@spark_job
def use_a_view_in_batches(spark: SparkSession, task: TaskContext) -> object:
    from concurrent.futures import ThreadPoolExecutor

    from pyspark.sql import SparkSession

    spark.range(4).createOrReplaceTempView("numbers")

    def look(batch: DataFrame, batch_id: int) -> None:
        SEEN["rows"] = SparkSession.active().table("numbers").count()
        with ThreadPoolExecutor(1) as pool:
            SEEN["in a thread"] = pool.submit(
                lambda: SparkSession.builder.getOrCreate().table("numbers").count()
            ).result()

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(look).trigger(once=True).start()


async def test_batches_see_the_views_of_their_task(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    task = order("use_a_view_in_batches")
    await runner.start(task)
    assert isinstance(await events.last(task.task), TaskFinished)
    assert SEEN == {"rows": 4, "in a thread": 4}


@spark_job
def write_slowly(spark: SparkSession, task: TaskContext) -> object:
    def write(batch: DataFrame, batch_id: int) -> None:
        SIGNALS["writing"].set()
        assert SIGNALS["end"].wait(DEADLINE_S)

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


async def test_a_batch_that_does_not_end_is_reported_as_still_running(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    SIGNALS.update(writing=threading.Event(), end=threading.Event())
    task = order("write_slowly", checkpoint=tmp_path)
    await runner.start(task)
    await eventually(SIGNALS["writing"].is_set)
    assert await runner.stop([task.task], "revoked", timeout_s=0.5) == {task.task}
    SIGNALS["end"].set()
    assert await runner.stop([task.task], "once more") == frozenset()
    assert events.heard[-1] == TaskStopped(order=task, reason="revoked")


@spark_job
def write_the_second_slowly(spark: SparkSession, task: TaskContext) -> object:
    from pyspark.sql.functions import udf

    started, may_end = task.config["started"], task.config["may_end"]

    @udf("long")
    def slowly(value):  # type: ignore[no-untyped-def]  # hints would say to Spark which kind of UDF it is
        Path(started).touch()
        while not Path(may_end).exists():
            time.sleep(0.05)
        return value

    def write(batch: DataFrame, batch_id: int) -> None:
        if batch_id:
            batch.sparkSession.range(1).select(slowly("id")).collect()

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


@pytest.mark.parametrize(("limit_s", "done"), [(DEADLINE_S, True), (0.001, False)], ids=["brief", "long"])
async def test_a_query_that_moves_finishes_a_short_batch(
    runner: LocalRunner, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, done: bool
) -> None:
    """So nobody has to repeat it. In a long batch, the Spark jobs are cancelled."""
    monkeypatch.setattr(attached_attempt, "BATCH_S", limit_s)
    started, may_end, checkpoint = tmp_path / "started", tmp_path / "may_end", tmp_path / "checkpoint"
    task = order("write_the_second_slowly", checkpoint=checkpoint, started=str(started), may_end=str(may_end))
    await runner.start(task)
    await eventually(started.exists)
    stopping = asyncio.ensure_future(runner.stop([task.task], "moved"))
    await asyncio.sleep(0)  # it has begun to stop
    if done:
        may_end.touch()
    assert await stopping == frozenset()
    may_end.touch()
    assert (checkpoint / "commits" / "1").exists() is done
    assert events.heard[-1] == TaskStopped(order=task, reason="moved")


class EndingLease:
    """A lease that a test can end."""

    def __init__(self) -> None:
        self.grant = 1

    def check(self, grant: int) -> None:
        if grant != self.grant:
            raise FencedError("the lease is over")

    def left_s(self, _grant: int) -> float:
        return math.inf  # the JVM's own fence is another matter


async def test_no_batch_is_written_after_the_lease_is_over(events: Events, tmp_path: Path) -> None:
    lease = EndingLease()
    runner = begins_at_once(LocalRunner(events, allowed=[__name__], lease=lease, settings=SETTINGS))
    source, sink = tmp_path / "source", tmp_path / "sink"
    add_rows(source, 0)
    task = order("stream_files", checkpoint=tmp_path / "checkpoint", source=str(source), sink=str(sink))
    try:
        await runner.start(task)
        await eventually(lambda: rows_in(sink) == [0])
        lease.grant += 1
        add_rows(source, 1)
        last = await events.last(task.task)
    finally:
        await runner.close()
    assert isinstance(last, TaskStopped), "not a failure of the task: another worker may own it by now"
    assert last.reason == "the lease is over"
    assert rows_in(sink) == [0]
