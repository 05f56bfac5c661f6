"""Before a stream moves here, its Spark has written streams: with the local runner and a real Spark."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from runner_bench import SEEN, SETTINGS, SHARED, Events, order_of
from waiting import eventually

from airflow_provider.spark.job import SparkJob, TaskContext
from airflow_provider.spark.local.application.spark_application import APPLICATION
from airflow_provider.spark.local.streaming import sinks
from airflow_provider.spark.runner import TaskOrder, TaskStarted, WarmUpReady
from airflow_provider.spark.runners.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("nothing_written_yet")

stream = partial(order_of, __name__)


class Rates(SparkJob):
    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        rows = spark.readStream.format("rate").load().writeStream.format("noop")
        return rows.option("checkpointLocation", task.checkpoint_location).start()


class Prepared(Rates):
    def warm_up(self, spark: SparkSession, task: TaskContext) -> None:
        SEEN["warmed up"] = True


@pytest.fixture
def nothing_written_yet(spark_application: object) -> None:
    java().clearProperty(sinks.ready_mark("parquet"))


def java() -> Any:
    """The ``System`` of the JVM that tests share."""
    return APPLICATION.running_for(SHARED, SETTINGS).root._jvm.java.lang.System  # type: ignore[union-attr]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == sinks.__name__]


def files_in(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.exists() else []


@pytest.mark.parametrize("name", ["Rates", "Prepared"])
async def test_spark_writes_once_for_all_streams_and_leaves_nothing(
    runner: LocalRunner, events: Events, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    orders = [stream(name, index, checkpoint=tmp_path / "job" / str(index)) for index in range(3)]
    for order in orders:
        runner.warm(order)
    for order in orders:
        await events.wait_for(order.task, WarmUpReady)
    (once,) = said(caplog)
    assert once.startswith("Spark is ready to write streams (parquet), after ")
    assert not files_in(tmp_path / "job")


@pytest.mark.parametrize("lacks", ["a folder", "time"])
async def test_a_task_is_ready_although_nothing_can_be_written_beside_its_checkpoint(
    runner: LocalRunner,
    events: Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    lacks: str,
) -> None:
    if lacks == "time":
        monkeypatch.setattr(sinks, "LIMIT_S", 0.0)
    else:
        (tmp_path / "job").touch()
    for index in range(2):
        order = stream("Rates", index, checkpoint=tmp_path / "job" / str(index))
        runner.warm(order)
        await events.wait_for(order.task, WarmUpReady)
    assert said(caplog) == [f"Could not write a small table (parquet) beside the checkpoint {tmp_path}/job/0"]


class HeldLock:
    """As if the warm-up of another task were writing, and did not end."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def acquire(self, *, blocking: bool) -> bool:
        self.asked.set()
        return blocking


async def test_a_task_that_moves_while_another_one_writes_starts_without_delay(
    runner: LocalRunner, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = HeldLock()
    monkeypatch.setattr(sinks, "ONE_AT_A_TIME", lock)
    await moves_when(lock.asked.is_set, runner, events, stream("Prepared", checkpoint=tmp_path / "job" / "0"))


async def test_a_task_that_moves_while_it_writes_starts_without_delay_and_leaves_no_file(
    runner: LocalRunner, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "BATCHES", 50)

    def written() -> bool:
        return bool([*tmp_path.glob("job/rehearsal-*/table/*.parquet")])

    await moves_when(written, runner, events, stream("Prepared", checkpoint=tmp_path / "job" / "0"))
    assert java().getProperty(sinks.ready_mark("parquet")) is None
    await eventually(lambda: not sinks.ONE_AT_A_TIME.locked())

    def left() -> list[Path]:
        """Not folders: a task of Spark that has been cancelled may make them once more, and delete only its file."""
        files = [Path(folder, name) for folder, _, names in os.walk(tmp_path / "job") for name in names]
        return [file for file in files if not file.is_relative_to(tmp_path / "job" / "0")]

    await eventually(lambda: not left(), left)


async def moves_when(condition: Callable[[], bool], runner: LocalRunner, events: Events, order: TaskOrder) -> None:
    SEEN.pop("warmed up", None)
    runner.warm(order)
    await eventually(condition)
    await runner.start(order)
    await events.wait_for(order.task, TaskStarted)
    assert await runner.stop([order.task], "moved") == frozenset()
    assert "warmed up" not in SEEN
