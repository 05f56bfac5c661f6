"""Tasks that are told to stop while Spark still starts: nobody waits for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import eventually

from airflow_provider.driver.application import LocalSparkSettings
from airflow_provider.protocol.model import Epoch, TaskId
from airflow_provider.spark import local
from airflow_provider.spark.job import SparkJob, TaskContext, TaskGuard
from airflow_provider.spark.local import LocalRunner
from airflow_provider.spark.local_session import Pools
from airflow_provider.spark.runner import RunnerEvent, TaskFinished, TaskOrder, TaskStarted, TaskStopped

TASK = TaskId("slow", 0)
called: list[int] = []


class Job(SparkJob):
    def run(self, spark: Any, task: TaskContext) -> None:
        called.append(task.attempt)


class SlowSession:
    """Spark that takes as long to start as the test says."""

    started = threading.Event()
    spark = None

    left_open = False
    handle: Any = None

    def __init__(
        self,
        user: object,
        settings: LocalSparkSettings,
        pools: Pools,
        module: str,
        *,
        label: str,
        tell_every_s: float,
    ) -> None: ...

    def open(self) -> Any:
        assert self.started.wait(10)
        return SimpleNamespace()

    def query_id(self, value: object) -> None:
        return None

    def left_running(self, value: object) -> None:
        return None

    def await_query(self, query: object, tell: object) -> None:
        raise AssertionError("there is no query")

    def explain(self, error: BaseException) -> BaseException:
        return error

    def share(self, name: str, make: Callable[[], Any], guard: TaskGuard) -> Any:
        return make()

    def rehearse(self, stream: object, location: str, guard: object) -> Iterator[float]:
        return iter(())

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LocalRunner, list[RunnerEvent]]]:
    monkeypatch.setattr(local, "LocalSession", SlowSession)
    SlowSession.started.clear()
    called.clear()
    events: list[RunnerEvent] = []
    yield LocalRunner(events.append, allowed=[__name__]), events
    SlowSession.started.set()


def order(attempt: int) -> TaskOrder:
    return TaskOrder(task=TASK, entry_point=f"{__name__}:Job", config={}, epoch=Epoch(1), attempt=attempt)


async def test_a_task_that_waits_for_spark_has_stopped_at_once_and_never_begins(
    runner: tuple[LocalRunner, list[RunnerEvent]],
) -> None:
    slow, events = runner
    await slow.start(order(1))
    assert await slow.stop([TASK], "revoked", timeout_s=10) == frozenset()
    assert events == [TaskStopped(order=order(1), reason="revoked")]
    assert not slow.running

    await slow.start(order(2))
    SlowSession.started.set()
    await eventually(lambda: isinstance(events[-1], TaskFinished), "the second attempt has run")
    assert called == [2], "the first one never did"
    assert events[1:] == [TaskStarted(order=order(2)), TaskFinished(order=order(2), result=None)]


async def test_a_runner_that_closes_waits_for_spark_to_have_started(
    runner: tuple[LocalRunner, list[RunnerEvent]],
) -> None:
    """Else it would start in a process that is about to end."""
    slow, events = runner
    await slow.start(order(1))
    threading.Timer(0.3, SlowSession.started.set).start()
    assert await slow.close(timeout_s=10) == frozenset()
    assert SlowSession.started.is_set()
    assert [type(event) for event in events] == [TaskStopped]
    assert not called


async def test_a_runner_that_closes_does_not_wait_for_ever_for_spark(
    runner: tuple[LocalRunner, list[RunnerEvent]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Starting it in a cluster may take minutes, and nobody can stop it before it has started."""
    slow, _ = runner
    started = threading.Event()
    monkeypatch.setattr(local, "APPLICATION", SimpleNamespace(release=lambda _user: started.wait(30)))
    began = time.monotonic()
    assert await slow.close(timeout_s=0.05) == frozenset()
    assert time.monotonic() - began < 10
    assert "Spark has not stopped within 0.05 s" in caplog.text
    started.set()
