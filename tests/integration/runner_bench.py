"""What tests of the local runner share: task orders, the runner's events, and common jobs."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from waiting import DEADLINE_S

from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings
from airflow_provider.spark.local.spark_state import LOOK_S
from airflow_provider.spark.runner import LastEvent, RunnerEvent, ServersSilent, SparkEnded, TaskFinished, TaskOrder
from airflow_provider.values.model import Epoch, TaskId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTICED_S = 5 * LOOK_S
"""A dead Spark is noticed within this time: one look finds it, but a driver takes 5 s to give up an executor."""
SETTINGS = LocalSparkSettings(master="local[2]")
SHARED = "the tests"
"""Who uses the Spark that tests share (the fixture ``spark_application``)."""
BENCH = __name__
"""The module of the jobs below, for the modules that a runner allows."""

SIGNALS: dict[str, threading.Event] = {}
"""A barrier between a test and its jobs, which are threads of its process; it is released when the test is over."""

SEEN: dict[str, Any] = {}
"""What jobs report to their test."""

_Event = TypeVar("_Event", bound=RunnerEvent)


class Events:
    """Collects a runner's events and lets a test wait for one."""

    def __init__(self) -> None:
        self.heard: list[RunnerEvent] = []
        self._changed = asyncio.Event()

    def __call__(self, event: RunnerEvent) -> None:
        self.heard.append(event)
        self._changed.set()

    def of(self, task: TaskId) -> list[RunnerEvent]:
        of_tasks = (event for event in self.heard if not isinstance(event, ServersSilent | SparkEnded))
        return [event for event in of_tasks if event.order.task == task]

    async def wait_for(self, task: TaskId, *kinds: type[_Event]) -> _Event:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            self._changed.clear()
            for event in self.of(task):
                if isinstance(event, kinds):
                    return event
                assert not isinstance(event, LastEvent), f"instead of {kinds}: {event}"
            await asyncio.wait_for(self._changed.wait(), deadline - time.monotonic())

    async def last(self, task: TaskId) -> RunnerEvent:
        return await self.wait_for(task, LastEvent)

    async def result(self, task: TaskId) -> object:
        """Wait until the task finishes; what it returned."""
        last = await self.last(task)
        assert isinstance(last, TaskFinished), last
        return last.result


def order_of(module: str, function: str, index: int = 0, *, checkpoint: Path | None = None, **config: Any) -> TaskOrder:
    """An order to run a module's job."""
    return TaskOrder(
        task=TaskId(function.replace("_", "-"), index),
        entry_point=f"{module}:{function}",
        config=config,
        epoch=Epoch(7),
        checkpoint_location=str(checkpoint or ""),
        max_tasks=3,
    )


@spark_job
def count_rows(spark: SparkSession, task: TaskContext) -> object:
    return {"rows": spark.range(task.config["rows"]).count(), "index": task.index, "epoch": task.epoch}


def counting(rows: int, index: int = 0) -> TaskOrder:
    return order_of(BENCH, "count_rows", index, rows=rows)


def holding_udf(started: str, held: str) -> Any:
    """A function of Spark that makes one file when it starts, and lasts until the other one is removed."""
    from pyspark.sql.functions import udf

    @udf("long")
    def hold(value):  # type: ignore[no-untyped-def]  # hints would say to Spark which kind of UDF it is
        Path(started).touch()
        while Path(held).exists():
            time.sleep(0.01)
        return value

    return hold


@spark_job
def hold_a_core(spark: SparkSession, task: TaskContext) -> object:
    """A Spark job that lasts until its file is removed."""
    hold = holding_udf(task.config["started"], task.config["held"])
    return spark.range(1).select(hold("id")).collect()[0][0]


def holding(folder: Path, index: int) -> TaskOrder:
    """An order to run :func:`hold_a_core` until it is let go; it has started when the file ``started`` exists."""
    held = folder / f"held-{index}"
    held.touch()
    return order_of(BENCH, "hold_a_core", index, started=str(folder / f"started-{index}"), held=str(held))


def let_go(task: TaskOrder) -> None:
    Path(task.config["held"]).unlink()
