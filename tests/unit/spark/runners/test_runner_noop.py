"""The runner that runs nothing keeps the contract of all runners."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from begun import begins_at_once
from turned_clock import time_passes
from waiting import DEADLINE_S

from airflow_provider.spark.runner import (
    LastEvent,
    RunnerClosedError,
    RunnerEvent,
    StillRunningError,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.values.model import PLANNER_INDEX, Epoch, TaskId

pytestmark = pytest.mark.turned_clock


def order(index: int = 0, **config: object) -> TaskOrder:
    return TaskOrder(task=TaskId("job", index), entry_point="x:Y", config=config, epoch=Epoch(1), max_tasks=2)


class Recorder:
    """A runner with the events heard from it."""

    def __init__(self) -> None:
        self.events: list[RunnerEvent] = []
        self.runner = begins_at_once(NoopRunner(self.events.append))

    async def last(self) -> RunnerEvent:
        deadline = time.monotonic() + DEADLINE_S
        while not (self.events and isinstance(self.events[-1], LastEvent)):
            assert time.monotonic() < deadline, self.events
            await asyncio.sleep(0.001)
        return self.events[-1]


@pytest.fixture
def noop() -> Recorder:
    return Recorder()


async def test_a_task_runs_until_it_is_stopped(noop: Recorder) -> None:
    await noop.runner.start(order())
    assert noop.runner.running == {TaskId("job", 0)}
    assert await noop.runner.stop([TaskId("job", 0), TaskId("unknown", 0)], "revoked") == frozenset()
    assert noop.events == [TaskStarted(order=order()), TaskStopped(order=order(), reason="revoked")]
    assert noop.runner.running == frozenset()


async def test_a_task_with_seconds_finishes_after_them(noop: Recorder) -> None:
    task = order(seconds=0.01)
    await noop.runner.start(task)
    assert await noop.last() == TaskFinished(order=task, result={"seconds": 0.01})
    assert noop.runner.running == frozenset()


async def test_a_task_told_to_fail_fails(noop: Recorder) -> None:
    task = order(fail="no luck")
    await noop.runner.start(task)
    assert await noop.last() == TaskFailed(order=task, error="no luck", traceback="", retryable=True)


@pytest.mark.parametrize("seconds", ["soon", [1], 10**400], ids=["text", "list", "huge"])
async def test_a_time_that_is_no_number_fails_the_task_and_not_its_worker(noop: Recorder, seconds: Any) -> None:
    task = order(seconds=seconds)
    await noop.runner.start(task)
    last = await noop.last()
    assert isinstance(last, TaskFailed)
    assert last.error.startswith("seconds must be a number, not ")
    assert noop.runner.running == frozenset()


async def test_no_error_to_fail_with_is_no_failure(noop: Recorder) -> None:
    await noop.runner.start(order(fail=None))
    await time_passes(3_600)
    assert noop.events == [TaskStarted(order=order(fail=None))]
    assert noop.runner.running == {TaskId("job", 0)}, "it runs until it is stopped"


async def test_a_planner_plans_as_many_tasks_as_it_may(noop: Recorder) -> None:
    task = order(PLANNER_INDEX, seconds=3)
    await noop.runner.start(task)
    assert await noop.last() == TaskFinished(order=task, result=[{"seconds": 3}, {"seconds": 3}], stateful=False)


async def test_a_plan_for_which_no_record_has_room_is_not_even_made(noop: Recorder) -> None:
    """It would eat all memory of the machine."""
    task = replace(order(PLANNER_INDEX), max_tasks=10**9)
    await noop.runner.start(task)
    last = await noop.last()
    assert isinstance(last, TaskFailed)
    assert last.error.startswith("the plan of job 'job' has 2000000000 bytes as JSON, more than the 900000")
    assert not last.retryable
    assert noop.runner.running == frozenset()


async def test_a_task_has_one_copy_only(noop: Recorder) -> None:
    await noop.runner.start(order())
    with pytest.raises(StillRunningError, match="job:0 is still running here"):
        await noop.runner.start(order())


async def test_a_closed_runner_stops_everything_and_starts_nothing(noop: Recorder) -> None:
    await noop.runner.start(order(0))
    await noop.runner.start(order(1, seconds=60))
    assert await noop.runner.close() == frozenset()
    first, second, *last = noop.events
    assert isinstance(first, TaskStarted)
    assert isinstance(second, TaskStarted)
    assert [type(event) for event in last] == [TaskStopped, TaskStopped]
    with pytest.raises(RunnerClosedError):
        await noop.runner.start(order(2))
