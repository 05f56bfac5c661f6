"""Real streams whose checkpoint another writer uses, too: nothing has failed, and they run when it is over."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runner_bench import Events, order_of
from waiting import eventually

from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.runner import QueryStarted, TaskConflicted, TaskFailed
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("spark_application")

order = partial(order_of, __name__)


@spark_job
def stream(spark: SparkSession, task: TaskContext) -> object:
    """It does not end another query of its checkpoint, as Spark would within one application."""
    spark.conf.set("spark.sql.streaming.stopActiveRunOnRestart", "false")
    rows = spark.readStream.format("rate").load()
    return rows.writeStream.format("noop").option("checkpointLocation", task.checkpoint_location).start()


@spark_job
def stream_that_is_raced(spark: SparkSession, task: TaskContext) -> object:
    """Another writer of the checkpoint is one batch ahead: it has begun the next one."""
    offsets = Path(task.checkpoint_location) / "offsets"

    def write(_batch: DataFrame, batch_id: int) -> None:
        shutil.copy(offsets / str(batch_id), offsets / str(batch_id + 1))

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


@spark_job
def stream_that_quotes(spark: SparkSession, task: TaskContext) -> object:
    def write(_batch: DataFrame, _batch_id: int) -> None:
        race = "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."
        raise RuntimeError(f"as if it were a race:\nCaused by: {race}")

    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(write).option("checkpointLocation", task.checkpoint_location).start()


async def test_a_stream_that_another_writer_overtakes_has_not_failed(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    raced = order("stream_that_is_raced", checkpoint=tmp_path)
    await runner.start(raced)
    last = await events.last(raced.task)
    assert isinstance(last, TaskConflicted), last
    assert "CONCURRENT_STREAM_LOG_UPDATE" in last.error


async def test_a_stream_whose_predecessor_still_runs_waits_for_its_end(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    before = order("stream", checkpoint=tmp_path)
    await runner.start(before)
    await events.wait_for(before.task, QueryStarted)
    await eventually((tmp_path / "commits" / "0").exists)
    after = replace(before, task=TaskId("after", 0))
    await runner.start(after)
    last = await events.last(after.task)
    assert isinstance(last, TaskConflicted), last
    assert "another query with same id is already active" in last.error
    await runner.stop([before.task], "it is over")
    events.heard.clear()
    await runner.start(after)
    await events.wait_for(after.task, QueryStarted)


async def test_a_batch_that_only_quotes_a_race_fails_its_task(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    quoting = order("stream_that_quotes", checkpoint=tmp_path)
    await runner.start(quoting)
    assert isinstance(await events.last(quoting.task), TaskFailed)
