"""A process that has used up its threads, its memory or its open files can run no task: its worker is to blame."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest
from begun import begins_at_once
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import SparkJob, TaskContext
from airflow_provider.spark.job.planning import SESSION_KEY
from airflow_provider.spark.limits import UsedUpError, within_limits
from airflow_provider.spark.runner import (
    NoSparkToWarmUp,
    RunnerEvent,
    SparkAbsent,
    TaskFinished,
    TaskOrder,
    TaskStopped,
)
from airflow_provider.spark.runners.attached_tasks.attached_attempt import NO_THREAD_S
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.spark.runners.threads import in_thread
from airflow_provider.values.model import Epoch, TaskId

LET_GO = threading.Event()
LIMITS = [
    RuntimeError("can't start new thread"),
    MemoryError(),
    OSError(errno.EMFILE, "Too many open files"),
]


class Job(SparkJob):
    def run(self, spark: object, task: TaskContext) -> None:
        if task.config.get("waits"):
            assert LET_GO.wait(DEADLINE_S)


def order(**config: object) -> TaskOrder:
    """Of a task that needs no session."""
    return TaskOrder(
        task=TaskId("job", 0), entry_point=f"{__name__}:Job", epoch=Epoch(1), config={SESSION_KEY: False, **config}
    )


class Threads:
    """Those of this process.

    :ivar limit: what keeps it from starting another one; None: nothing
    :ivar started: their names
    """

    limit: Exception | None = None

    def __init__(self) -> None:
        self.started: list[str] = []
        self._start = threading.Thread.start

    def start(self, thread: threading.Thread) -> None:
        if self.limit is not None:
            raise self.limit
        self.started.append(thread.name)
        self._start(thread)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    LET_GO.clear()
    threads = Threads()
    monkeypatch.setattr(threading.Thread, "start", lambda thread: threads.start(thread))
    return threads


@pytest.mark.parametrize("limit", LIMITS, ids=["threads", "memory", "files"])
async def test_the_worker_is_to_blame_if_a_task_gets_no_thread(threads: Threads, limit: Exception) -> None:
    events: list[RunnerEvent] = []
    runner = begins_at_once(LocalRunner(events.append, allowed=[__name__]))
    threads.limit = limit
    await runner.start(order())
    assert runner.running == {order().task}
    await eventually(lambda: bool(events))
    absent = events.pop()
    assert isinstance(absent, SparkAbsent)
    assert absent.error.startswith("this process can't start a thread: a limit of it is reached; caused by ")
    assert runner.running == frozenset()
    runner.warm(order())
    await eventually(lambda: bool(events))
    assert isinstance(events.pop(), NoSparkToWarmUp)
    threads.limit = None
    await runner.start(order())
    await eventually(lambda: any(isinstance(event, TaskFinished) for event in events))
    assert await runner.close() == frozenset()


async def test_what_runs_is_stopped_as_soon_as_that_is_possible(threads: Threads) -> None:
    events: list[RunnerEvent] = []
    runner = begins_at_once(LocalRunner(events.append, allowed=[__name__]))
    await runner.start(order(waits=True))
    await eventually(lambda: bool(events))
    threads.limit = LIMITS[0]
    assert await runner.stop(runner.running, "revoked", timeout_s=0.0) == {order().task}
    threads.limit = None
    await eventually(lambda: f"stop-{order().task}" in threads.started)
    LET_GO.set()
    await eventually(lambda: isinstance(events[-1], TaskStopped))
    assert await runner.close() == frozenset()


async def test_what_has_ended_is_stopped_no_more(threads: Threads, caplog: pytest.LogCaptureFixture) -> None:
    events: list[RunnerEvent] = []
    runner = begins_at_once(LocalRunner(events.append, allowed=[__name__]))
    await runner.start(order(waits=True))
    await eventually(lambda: bool(events))
    threads.limit = LIMITS[0]
    await runner.stop(runner.running, "revoked", timeout_s=0.0)
    LET_GO.set()
    await eventually(lambda: isinstance(events[-1], TaskStopped))
    caplog.clear()
    await asyncio.sleep(2 * NO_THREAD_S)
    assert not [each for each in caplog.messages if "can't be stopped yet" in each]
    threads.limit = None
    assert await runner.close() == frozenset()


async def test_a_runner_closes_although_it_can_start_no_thread(threads: Threads) -> None:
    runner = LocalRunner(lambda _: None, allowed=[__name__])
    threads.limit = LIMITS[0]
    assert await runner.close() == frozenset()
    with pytest.raises(UsedUpError):
        await in_thread(lambda: None, "any")


@pytest.mark.parametrize("other", [RuntimeError("no"), FileNotFoundError(errno.ENOENT, "no such file")])
def test_other_errors_are_what_they_are(other: Exception) -> None:
    with pytest.raises(type(other)) as raised, within_limits("do this"):
        raise other
    assert raised.value is other
