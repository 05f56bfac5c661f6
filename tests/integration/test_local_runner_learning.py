"""Tasks are made ready with the local runner and a real Spark before they move here."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from runner_bench import SEEN, SETTINGS, SHARED, Events, order_of
from waiting import eventually

from airflow_provider.spark.job import SparkJob, TaskContext, spark_job
from airflow_provider.spark.local.application.spark_application import APPLICATION
from airflow_provider.spark.local.streaming import rehearsal
from airflow_provider.spark.local.streaming.checkpoint_files import read_newest
from airflow_provider.spark.local.streaming.rehearsal import FEWEST, MOST
from airflow_provider.spark.runner import TaskOrder, TaskStarted, TaskStopped, WarmUpFailed, WarmUpLost, WarmUpReady
from airflow_provider.spark.runners.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.usefixtures("spark_application")

stream = partial(order_of, __name__)


def order(name: str, index: int = 0) -> TaskOrder:
    """An order to run a batch job of this module."""
    return replace(order_of(__name__, name, index), bounded=True)


def reads_the_cache(data: DataFrame) -> bool:
    return "InMemoryTableScan" in data._jdf.queryExecution().executedPlan().toString()


def active_jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


class Enrich(SparkJob):
    """Caches a million rows of reference data, and joins with them."""

    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        self.airports = spark.range(1_000_000).selectExpr("id", "uuid() AS name").persist()
        self.airports.createOrReplaceTempView("airports")
        yield 0.1
        self.airports.count()
        yield 0.9

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        view = spark.table("airports")
        return {
            "own session": self.airports.sparkSession is spark,
            "cached": reads_the_cache(view),
            "rows": view.count(),
            "attempt": task.attempt,
        }


async def test_a_task_goes_on_with_what_was_cached_for_it(runner: LocalRunner, events: Events) -> None:
    task = order("Enrich")
    runner.warm(task)
    await events.wait_for(task.task, WarmUpReady)
    await runner.start(replace(task, attempt=2))
    result = await events.result(task.task)
    assert result == {"own session": True, "cached": True, "rows": 1_000_000, "attempt": 2}


@spark_job
def look_up(spark: SparkSession, task: TaskContext) -> Any:
    def make() -> DataFrame:
        SEEN["made"] = SEEN.get("made", 0) + 1
        return spark.range(1_000).selectExpr("id", "uuid() AS name")

    airports = task.cached("airports", make)
    first = airports.orderBy("id").first()
    assert first is not None
    return {
        "own session": airports.sparkSession is spark,
        "cached": reads_the_cache(airports.where("id < 5")),
        "name": first["name"],
    }


async def test_tasks_share_reference_data_and_each_sees_it_in_its_session(runner: LocalRunner, events: Events) -> None:
    tasks = [order("look_up", index) for index in range(3)]
    for task in tasks:
        await runner.start(task)
    results = [await events.result(task.task) for task in tasks]
    assert SEEN["made"] == 1
    assert all(result == results[0] for result in results)
    assert results[0]["own session"]  # type: ignore[index]
    assert results[0]["cached"]  # type: ignore[index]


@spark_job
def clear_the_cache(spark: SparkSession, task: TaskContext) -> Any:
    def airports() -> DataFrame:
        return task.cached("airports", lambda: spark.range(1_000).selectExpr("id", "uuid() AS name"))

    before = reads_the_cache(airports())
    spark.catalog.clearCache()
    return [before, reads_the_cache(airports())]


async def test_shared_data_is_cached_again_when_a_task_has_cleared_the_cache(
    runner: LocalRunner, events: Events
) -> None:
    task = order("clear_the_cache")
    await runner.start(task)
    assert await events.result(task.task) == [True, True]


class Endless(SparkJob):
    """Its warm-up is a Spark job that takes hours."""

    def warm_up(self, spark: SparkSession, task: TaskContext) -> None:
        SEEN["spark"] = spark
        spark.range(10**13).selectExpr("sum(sqrt(id))").collect()

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        return spark.range(7).count()


async def test_a_warm_up_that_is_not_needed_any_more_leaves_nothing_running(
    runner: LocalRunner, events: Events
) -> None:
    task = order("Endless")
    runner.warm(task)
    await eventually(lambda: "spark" in SEEN and active_jobs(SEEN["spark"]))
    runner.stop_warming(task.task)
    await eventually(lambda: not active_jobs(SEEN["spark"]), "its Spark job is cancelled")
    assert events.of(task.task) == []


async def test_a_task_that_moves_before_it_is_ready_starts_without_delay(runner: LocalRunner, events: Events) -> None:
    task = order("Endless")
    runner.warm(task)
    await eventually(lambda: "spark" in SEEN and active_jobs(SEEN["spark"]))
    await runner.start(task)
    assert await events.result(task.task) == 7
    assert isinstance(events.of(task.task)[0], TaskStarted)


class Missing(SparkJob):
    def warm_up(self, spark: SparkSession, task: TaskContext) -> None:
        spark.table("nowhere").persist().count()

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        return spark.range(7).count()


async def test_a_warm_up_that_fails_keeps_no_task_from_running(runner: LocalRunner, events: Events) -> None:
    task = order("Missing")
    runner.warm(task)
    failed = await events.wait_for(task.task, WarmUpFailed)
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in failed.error
    await runner.start(task)
    assert await events.result(task.task) == 7


@spark_job
def count_values(spark: SparkSession, task: TaskContext) -> Any:
    """A stream with state."""
    values = spark.readStream.format("rate").option("rowsPerSecond", 50).load().groupBy("value").count()
    return (
        values.writeStream.outputMode("complete")
        .foreachBatch(lambda batch, number: SEEN.update(rows=batch.count(), batch=number))
        .option("checkpointLocation", task.checkpoint_location)
        .start()
    )


async def test_the_newest_state_files_of_a_stream_are_read(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    task = stream("count_values", checkpoint=tmp_path / "checkpoint")
    await runner.start(task)
    await eventually(lambda: SEEN.get("batch", 0) >= 2)
    runner.warm(replace(task, task=task.task._replace(index=1)))
    await events.wait_for(task.task._replace(index=1), WarmUpReady)
    assert await runner.stop([task.task], "moved") == frozenset()
    assert isinstance(events.of(task.task)[-1], TaskStopped)

    spark = APPLICATION.running_for(SHARED, SETTINGS).root
    read = len(list(read_newest(spark, str(tmp_path / "checkpoint"))))
    partitions = len(list((tmp_path / "checkpoint" / "state" / "0").glob("[0-9]*")))
    assert read >= 2 + partitions
    assert list(read_newest(spark, str(tmp_path / "nowhere"))) == []


class Words(SparkJob):
    """Counts the words of files; a rehearsal keeps its own counts."""

    def plan_of(self, spark: SparkSession, task: TaskContext) -> DataStreamWriter:
        lines = spark.readStream.schema("word string").option("maxFilesPerTrigger", 1).csv(task.config["input"])
        return lines.groupBy("word").count().writeStream.outputMode("update")

    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        def keep(batch: DataFrame, number: int) -> None:
            SEEN["rehearsed"].append((number, counts_of(batch)))

        yield from task.rehearse(self.plan_of(spark, task).foreachBatch(keep))

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        def write(batch: DataFrame, number: int) -> None:
            SEEN["written"].append((number, counts_of(batch)))

        query = self.plan_of(spark, task).foreachBatch(task.foreach_batch(write))
        return query.option("checkpointLocation", task.checkpoint_location).start()


def counts_of(batch: DataFrame) -> dict[str, int]:
    return {row["word"]: row["count"] for row in batch.collect()}


async def test_a_query_is_rehearsed_on_a_copy_of_its_checkpoint_and_the_real_one_is_left_alone(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    SEEN.update(written=[], rehearsed=[])
    words, checkpoint = tmp_path / "words", tmp_path / "checkpoints" / "0"
    words.mkdir()
    task = stream("Words", checkpoint=checkpoint, input=str(words))
    await runner.start(task)
    for number in range(3):
        (words / f"{number}.csv").write_text("tick\n")
        await eventually((checkpoint / "commits" / str(number)).exists)

    left = checkpoint.parent / "rehearsal-00000000-7"
    (left / "offsets").mkdir(parents=True)
    (left / "metadata").touch()
    os.utime(left / "metadata", (1e9, 1e9))
    learner = replace(task, task=task.task._replace(index=1))
    runner.warm(learner)
    await events.wait_for(learner.task, WarmUpReady)
    assert SEEN["written"] == [(number, {"tick": number + 1}) for number in range(3)]
    again = {(2, (("tick", 3),))}
    assert {(number, tuple(counts.items())) for number, counts in SEEN["rehearsed"]} == again
    assert FEWEST <= len(SEEN["rehearsed"]) <= MOST
    assert [path.name for path in checkpoint.parent.iterdir()] == ["0"], (
        "the copy is deleted, and so is an old one that was left behind"
    )

    assert await runner.stop([task.task], "moved") == frozenset()
    (words / "3.csv").write_text("tick\n")
    await runner.start(learner)
    await eventually(lambda: len(SEEN["written"]) == 4)
    assert SEEN["written"][3] == (3, {"tick": 4})


class Careless(SparkJob):
    """Its rehearsal does what its configuration says and a rehearsal must not do."""

    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        lines = spark.readStream.schema("word string").option("maxFilesPerTrigger", 1)
        words = lines.options(**task.config.get("source", {})).csv(task.config["input"])
        self.stream = words.writeStream.option("checkpointLocation", task.checkpoint_location)
        if "output" in task.config:
            self.stream = self.stream.format("json").option("path", task.config["output"])
        else:
            self.stream = self.stream.foreachBatch(lambda batch, number: SEEN["batches"].append(number))
        yield from task.rehearse(self.stream)

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        for _ in self.warm_up(spark, task):
            SEEN["in run"] = True
        return self.stream.start()


async def start_carelessly(runner: LocalRunner, events: Events, tmp_path: Path, **config: Any) -> TaskOrder:
    """Run two batches, stop, and add more input.

    :returns: the order of a learner that goes on from there
    """
    SEEN.update(batches=[])
    words, checkpoint = tmp_path / "words", tmp_path / "checkpoints" / "0"
    words.mkdir()
    for number in range(2):
        (words / f"{number}.csv").write_text(f"{number}\n")
    task = stream("Careless", checkpoint=checkpoint, input=str(words), **config)
    await runner.start(task)
    await eventually((checkpoint / "commits" / "1").exists)
    assert await runner.stop([task.task], "moved") == frozenset()
    assert isinstance(events.of(task.task)[-1], TaskStopped)
    for number in range(2, 6):
        (words / f"{number}.csv").write_text(f"{number}\n")
    SEEN.update(batches=[])
    return replace(task, task=task.task._replace(index=1))


@pytest.mark.parametrize("kept", ["by a sink", "by a source"])
async def test_a_rehearsal_that_would_write_or_take_what_the_task_reads_is_left_out(
    runner: LocalRunner, events: Events, tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: str
) -> None:
    output = tmp_path / "written"
    given = {"output": str(output)} if kept == "by a sink" else {"source": {"cleanSource": "delete"}}
    learner = await start_carelessly(runner, events, tmp_path, **given)
    written = sorted(output.rglob("[!.]*"))
    runner.warm(learner)
    await events.wait_for(learner.task, WarmUpReady)
    assert "A rehearsal with a copy of the checkpoint" in caplog.text
    assert sorted(output.rglob("[!.]*")) == written
    assert {f"{number}.csv" for number in range(2, 6)} <= {path.name for path in (tmp_path / "words").iterdir()}


async def test_after_a_rehearsal_a_stream_goes_on_from_the_checkpoint_of_its_task(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    learner = await start_carelessly(runner, events, tmp_path)
    assert "in run" not in SEEN
    runner.warm(learner)
    await events.wait_for(learner.task, WarmUpReady)
    assert 1 in SEEN["batches"], "the last batch is done again"
    SEEN.update(batches=[])
    await runner.start(learner)
    await eventually(lambda: len(SEEN["batches"]) == 4)
    assert SEEN["batches"] == [2, 3, 4, 5]
    assert "in run" not in SEEN
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["0"]


class Slow(Words):
    """Hangs in the second batch of its rehearsal, and may fail in the first one."""

    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        def take_time(batch: DataFrame, number: int) -> None:
            if task.config.get("fails"):
                raise ValueError("no such currency")
            batch.selectExpr(f"java_method('java.lang.Thread', 'sleep', {number * 60_000}L)").collect()

        yield from task.rehearse(self.plan_of(spark, task).foreachBatch(take_time))


@pytest.mark.parametrize("config", [{}, {"fails": True}], ids=["stopped", "failed"])
async def test_a_stopped_rehearsal_logs_one_line_and_a_failed_one_its_traceback(
    runner: LocalRunner,
    events: Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    config: dict[str, Any],
) -> None:
    monkeypatch.setattr(rehearsal, "MOST", 1)
    caplog.set_level(logging.INFO)
    SEEN.update(written=[])
    words, checkpoint = tmp_path / "words", tmp_path / "checkpoints" / "0"
    words.mkdir()
    (words / "0.csv").write_text("tick\n")
    task = stream("Slow", checkpoint=checkpoint, input=str(words), **config)
    await runner.start(task)
    await eventually((checkpoint / "commits" / "0").exists)
    assert await runner.stop([task.task], "moved") == frozenset()
    (words / "1.csv").write_text("tick\n")
    caplog.clear()
    learner = replace(task, task=task.task._replace(index=1))
    runner.warm(learner)
    await events.wait_for(learner.task, WarmUpReady)
    said = [record for record in caplog.records if record.name == "py4j.clientserver"]
    assert said
    assert all(("no such currency" in str(record.exc_info)) is bool(config) for record in said)
    assert all(("in the middle of a batch" in record.getMessage()) is not bool(config) for record in said)


class Crash(Words):
    """Kills the JVM in its rehearsal."""

    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        yield from task.rehearse(self.plan_of(spark, task).foreachBatch(lambda batch, number: kill_jvm()))


async def test_a_task_that_lost_its_spark_in_a_rehearsal_is_not_ready(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    SEEN.update(written=[])
    words, checkpoint = tmp_path / "words", tmp_path / "checkpoints" / "0"
    words.mkdir()
    (words / "0.csv").write_text("tick\n")
    task = stream("Crash", checkpoint=checkpoint, input=str(words))
    await runner.start(task)
    await eventually((checkpoint / "commits" / "0").exists)
    assert await runner.stop([task.task], "moved") == frozenset()
    learner = replace(task, task=task.task._replace(index=1))
    runner.warm(learner)
    await events.wait_for(learner.task, WarmUpLost)
    assert not [event for event in events.of(learner.task) if isinstance(event, WarmUpReady)]


def kill_jvm() -> None:
    for child in psutil.Process().children():
        if child.name() == "java" and "pyspark-shell" in child.cmdline():
            child.kill()


async def test_a_checkpoint_changes_while_it_is_read(tmp_path: Path) -> None:
    """As a running query changes it: files are renamed into place, and finally deleted."""
    spark = APPLICATION.running_for(SHARED, SETTINGS).root
    folder, over = tmp_path / "offsets", threading.Event()
    folder.mkdir()
    for number in range(100):
        (folder / f"{number}").touch()

    def change() -> None:
        number = 100
        while not over.is_set():
            hidden = folder / f".{number}.tmp"
            hidden.touch()
            hidden.rename(folder / f"{number}")
            (folder / f"{number - 100}").unlink()
            number += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(20):
            assert len(list(read_newest(spark, str(tmp_path)))) <= 1
    finally:
        over.set()
        changing.join()


@pytest.mark.thorough
async def test_a_task_is_made_ready_again_in_a_new_jvm(runner: LocalRunner, events: Events) -> None:
    ready, busy = order("Enrich"), order("Endless")
    runner.warm(ready)
    await events.wait_for(ready.task, WarmUpReady)
    runner.warm(busy)
    await eventually(lambda: "spark" in SEEN and active_jobs(SEEN["spark"]))
    kill_jvm()
    lost = [await events.wait_for(task.task, WarmUpLost) for task in (ready, busy)]
    assert lost[0].spark == lost[1].spark
    events.heard.clear()
    runner.warm(ready)
    await events.wait_for(ready.task, WarmUpReady)
    await runner.start(ready)
    result = await events.result(ready.task)
    assert isinstance(result, dict)
    assert result["cached"]
