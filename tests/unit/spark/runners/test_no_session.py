"""Tasks of a job that needs no session: the Spark of their worker is not started for them."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from begun import begins_at_once
from waiting import eventually

from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job import JobContext, SparkJob, TaskContext, is_stateful
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease
from airflow_provider.spark.job.planning import make_plan
from airflow_provider.spark.runner import (
    QueryDetached,
    RunnerEvent,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.spark.runners.attached_tasks.attached import AttachedRunner
from airflow_provider.spark.runners.no_session import NoSession
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.values.model import Epoch, TaskId

TASK = TaskId("alone", 0)
DRIVER = DriverHandle(cluster="yarn", tag="cospark-1", since_ms=0, result={})


class Alone(SparkJob):
    needs_session = False

    def run(self, spark: Any, task: TaskContext) -> Any:
        if task.config.get("shares"):
            task.cached("prices", lambda: spark.range(1))
        if task.config.get("submits"):
            return DRIVER
        while task.config.get("waits") and not task.wait(0.01):
            pass
        return {"spark": spark, "lease": task.lease_left_s}


class NoSpark:
    """A worker's Spark that nobody may ask for."""

    opening = None

    def session(self, order: TaskOrder) -> Any:
        raise AssertionError("it needs no session")

    async def release(self, *, timeout_s: float) -> None: ...


@pytest.fixture
def events() -> list[RunnerEvent]:
    return []


@pytest.fixture
def runner(events: list[RunnerEvent]) -> AttachedRunner:
    sparks: Any = NoSpark()
    lease: Any = SimpleNamespace(grant=0, check=lambda grant: None, left_s=lambda grant: 17.0)
    return begins_at_once(AttachedRunner(events.append, allowed=[__name__], sparks=sparks, lease=lease))


def order(**config: object) -> TaskOrder:
    (planned,) = make_plan(Alone(), JobContext(name="alone", config=config, max_tasks=1))
    return TaskOrder(task=TASK, entry_point=f"{__name__}:Alone", config=planned, epoch=Epoch(1))


async def last_of(events: list[RunnerEvent], *kinds: type[RunnerEvent]) -> RunnerEvent:
    await eventually(lambda: events and isinstance(events[-1], kinds), lambda: str(events))
    return events[-1]


async def test_it_runs_without_any_and_knows_how_long_the_task_is_its_own(
    runner: AttachedRunner, events: list[RunnerEvent]
) -> None:
    task = order()
    await runner.start(task)
    last = await last_of(events, TaskFinished, TaskFailed)
    assert last == TaskFinished(order=task, result={"spark": None, "lease": 17.0})
    assert events[0] == TaskStarted(order=task)
    await runner.close()


async def test_it_is_stopped_as_any_other(runner: AttachedRunner, events: list[RunnerEvent]) -> None:
    task = order(waits=True)
    await runner.start(task)
    await last_of(events, TaskStarted)
    await asyncio.sleep(0)
    assert await runner.stop([TASK], "revoked") == frozenset()
    assert events[-1] == TaskStopped(order=task, reason="revoked")
    await runner.close()


async def test_what_needs_a_session_says_that_there_is_none(runner: AttachedRunner, events: list[RunnerEvent]) -> None:
    await runner.start(order(shares=True))
    last = await last_of(events, TaskFinished, TaskFailed)
    assert isinstance(last, TaskFailed)
    assert "needs_session = False" in last.error
    await runner.close()


async def test_what_it_has_submitted_goes_on_without_this_process(
    runner: AttachedRunner, events: list[RunnerEvent]
) -> None:
    task = order(submits=True)
    await runner.start(task)
    last = await last_of(events, QueryDetached, TaskFailed, TaskFinished)
    assert last == QueryDetached(order=task, handle=DRIVER.to_json())
    assert runner.running == frozenset()
    await runner.close()


@pytest.mark.parametrize(
    ("reason", "last"),
    [("revoked", TaskStopped), ("its job is paused", QueryDetached)],
    ids=["it moves, and the next worker finds it", "whoever stops it has it killed by its handle"],
)
def test_if_it_is_told_to_stop_right_after_it_has_submitted_it_depends_on_why(
    reason: str, last: type[RunnerEvent]
) -> None:
    guard = AttemptGuard(EndlessLease())
    guard.proceed()

    class ToldThen(Alone):
        def run(self, spark: Any, task: TaskContext) -> Any:
            guard.stop(reason)
            return DRIVER

    told = run_attempt(order(), guard, NoSession(), [__name__], lambda _event: None, job=ToldThen())
    assert type(told) is last


def test_there_is_nothing_to_warm_up() -> None:
    assert is_stateful(Alone()) is False


def test_outside_of_a_group_a_task_is_ones_own_for_ever() -> None:
    task = TaskContext(job="alone", index=0, config={}, epoch=1, checkpoint_location="")
    assert task.lease_left_s == math.inf
