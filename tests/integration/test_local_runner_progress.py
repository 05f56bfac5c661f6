"""The progress of tasks as a real Spark reports it, and the address of Spark's own page."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from begun import begins_at_once
from runner_bench import SEEN, SETTINGS, SIGNALS, Events, order_of
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings
from airflow_provider.spark.local.counted_jobs import CountedJobs
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.runner import TaskProgressed
from airflow_provider.spark.runners.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


order = partial(order_of, __name__)
WITH_PAGE = LocalSparkSettings(
    master=SETTINGS.master,
    conf={"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.ui.retainedJobs": "50"},
)


@pytest.fixture
async def progressing(events: Events) -> AsyncIterator[LocalRunner]:
    """A runner with Spark's own page that reports progress often enough for a test."""
    SIGNALS.clear()
    SEEN.clear()
    runner = begins_at_once(LocalRunner(events, allowed=[__name__], settings=WITH_PAGE, tell_every_s=0.2))
    yield runner
    for waiting in SIGNALS.values():
        waiting.set()
    assert await runner.close() == frozenset()


@spark_job
def group_and_write(spark: SparkSession, task: TaskContext) -> object:
    written = f"{task.config['folder']}/written"
    spark.range(0, 1_000, 1, 4).selectExpr("id % 10 AS k").groupBy("k").count().write.parquet(written)
    SEEN["rows"] = spark.read.parquet(written).count()
    assert SIGNALS["told"].wait(DEADLINE_S)
    spark.range(0, 5, 1, 1).count()
    assert SIGNALS["all told"].wait(DEADLINE_S)
    return SEEN["rows"]


@spark_job
def stream_rates(spark: SparkSession, task: TaskContext) -> object:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    return rows.writeStream.format("noop").option("checkpointLocation", task.config["folder"]).start()


@spark_job
def stream_each_hour(spark: SparkSession, task: TaskContext) -> object:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    writes = rows.writeStream.format("noop").trigger(processingTime="1 hour")
    return writes.option("checkpointLocation", task.config["folder"]).start()


def told(events: Events) -> list[JobCounts | QueryProgress | QueryMoves]:
    return [event.progress for event in events.heard if isinstance(event, TaskProgressed)]


async def test_a_bounded_task_tells_what_its_own_spark_jobs_have_done(
    progressing: LocalRunner, events: Events, tmp_path: Path
) -> None:
    SIGNALS.update({"told": threading.Event(), "all told": threading.Event()})
    first, other = (order("group_and_write", index, folder=str(tmp_path / str(index))) for index in (0, 1))
    await progressing.start(first)
    await eventually(lambda: SEEN.get("rows") == 10)

    def so_far() -> JobCounts | None:
        """Spark tells the rows of a task before it tells that its stage is done."""
        counts = told(events)[-1] if told(events) else None
        return counts if isinstance(counts, JobCounts) and counts.rows_read == 1_010 else None

    await eventually(lambda: (counts := so_far()) is not None and counts.stages_done >= 4)
    counts = so_far()
    assert counts is not None
    assert counts.rows_written == 10
    assert counts.stages >= counts.stages_done
    assert counts.tasks >= counts.tasks_done >= 4
    SIGNALS["told"].set()
    await eventually(lambda: told(events)[-1].rows_read == 1_015)  # type: ignore[union-attr]
    SIGNALS["all told"].set()
    assert await events.result(first.task) == 10
    at_the_end = told(events)[-1]
    assert isinstance(at_the_end, JobCounts)
    assert (at_the_end.stages, at_the_end.tasks) == (at_the_end.stages_done, at_the_end.tasks_done), (
        "a skipped stage does not count as open"
    )
    await progressing.start(other)
    assert await events.result(other.task) == 10
    mine = [event.progress for event in events.of(other.task) if isinstance(event, TaskProgressed)]
    assert all(isinstance(counts, JobCounts) and counts.rows_read <= 1_015 for counts in mine), mine


async def test_a_query_tells_its_batches_and_spark_where_its_page_is(
    progressing: LocalRunner, events: Events, tmp_path: Path
) -> None:
    task = order("stream_rates", folder=str(tmp_path))
    await progressing.start(task)
    await eventually(lambda: any(isinstance(said, QueryProgress) and said.rows for said in told(events)))
    assert not any(isinstance(said, JobCounts) for said in told(events))
    said = [said for said in told(events) if isinstance(said, QueryProgress) and said.rows][-1]
    assert said.batch_ms is not None
    assert said.rows_per_second > 0
    assert said.asked_at_ms == pytest.approx(time.time() * 1000, abs=DEADLINE_S * 1000)
    await eventually(lambda: progressing.spark_ui.startswith("http://"))
    await progressing.stop([task.task], "enough")


async def test_a_query_that_waits_for_its_next_trigger_is_told_to_move(
    progressing: LocalRunner, events: Events, tmp_path: Path
) -> None:
    task = order("stream_each_hour", folder=str(tmp_path))
    await progressing.start(task)
    await eventually(lambda: QueryMoves() in told(events))
    await progressing.stop([task.task], "enough")


@spark_job
def shuffle_once(spark: SparkSession, task: TaskContext) -> object:
    """Two jobs on the same shuffle: the second skips the stage that the first has run."""
    from pyspark import InheritableThread

    context, go_on = spark.sparkContext, Path(task.config["folder"], "go on")
    context.addJobTag("shuffled")
    counted = CountedJobs(context, "shuffled")
    sums = context.parallelize(range(8), 2).map(lambda n: (n % 2, n)).reduceByKey(lambda one, other: one + other, 2)
    sums.count()

    def slow(pair: tuple[int, int]) -> tuple[int, int]:
        while not go_on.exists():
            time.sleep(0.01)
        return pair

    second = InheritableThread(target=sums.map(slow).count, session=spark)
    second.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while (begun := counted.look()).stages != 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        go_on.touch()
    second.join()
    end = counted.look_at_the_end()
    return {
        "begun": [begun.stages, begun.stages_done, begun.tasks],
        "end": [end.stages, end.stages_done, end.tasks, end.tasks_done],
    }


async def test_a_stage_that_is_skipped_does_not_count(progressing: LocalRunner, events: Events, tmp_path: Path) -> None:
    task = order("shuffle_once", folder=str(tmp_path))
    await progressing.start(task)
    assert await events.result(task.task) == {"begun": [3, 2, 6], "end": [3, 3, 6, 6]}


@spark_job
def counted_by_two(spark: SparkSession, task: TaskContext) -> object:
    """At the end of a task, the thread that polls may still look while the task's own looks for the last time."""
    context = spark.sparkContext
    context.addJobTag("counted by two")
    counted = CountedJobs(context, "counted by two")
    for _ in range(20):
        context.parallelize([1], 1).count()
    with ThreadPoolExecutor(2) as threads:
        looks = [threads.submit(look) for look in (counted.look, counted.look_at_the_end)]
    return [look.result().tasks_done for look in looks]


async def test_jobs_are_counted_once_when_two_threads_look(progressing: LocalRunner, events: Events) -> None:
    task = order("counted_by_two")
    await progressing.start(task)
    assert await events.result(task.task) == [20, 20]


@spark_job
def many_jobs(spark: SparkSession, task: TaskContext) -> object:
    context = spark.sparkContext
    context.addJobTag("counted")
    counted = CountedJobs(context, "counted")
    said = []
    for number in range(1, 4):
        for _ in range(40):
            context.parallelize([1], 1).count()
        said.append(counted.look().tasks_done == number * 40)
    return said


@pytest.mark.thorough
async def test_jobs_that_spark_has_forgotten_still_count(progressing: LocalRunner, events: Events) -> None:
    """Spark keeps only fifty jobs here."""
    task = order("many_jobs")
    await progressing.start(task)
    assert await events.result(task.task) == [True, True, True]
