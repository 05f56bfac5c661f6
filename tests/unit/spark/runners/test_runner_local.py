"""Tasks that are told to stop while Spark still starts: nobody waits for that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from begun import begins_at_once
from waiting import DEADLINE_S, TEST_LIMIT_S, eventually

from airflow_provider.spark.job import SparkJob, TaskContext, TaskGuard
from airflow_provider.spark.job.session_conf import AllowedConf
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.runner import RunnerEvent, TaskFinished, TaskOrder, TaskProgressed, TaskStarted, TaskStopped
from airflow_provider.spark.runners import local
from airflow_provider.spark.runners.attached_tasks import attached
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.spark.runners.local_task_session import Pools
from airflow_provider.values.model import Epoch, TaskId

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
        conf: Mapping[str, str],
        allowed_conf: AllowedConf,
        tell_every_s: float,
        lease_left_s: object,
    ) -> None: ...

    def open(self) -> Any:
        assert self.started.wait(DEADLINE_S)
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

    def prepare_stream(self, location: str, guard: object) -> Iterator[float]:
        return iter(())

    def rehearse(self, stream: object, location: str, guard: object) -> Iterator[float]:
        return iter(())

    def cancel(self) -> None: ...

    def give_up(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def looks() -> list[Callable[[], None]]:
    """How the runner is looked at whenever its condition has changed."""
    return []


@pytest.fixture
def runner(
    looks: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LocalRunner, list[RunnerEvent]]]:
    def look() -> None:
        for each in looks:
            each()

    monkeypatch.setattr(local, "LocalSession", SlowSession)
    SlowSession.started.clear()
    called.clear()
    events: list[RunnerEvent] = []
    yield begins_at_once(LocalRunner(events.append, allowed=[__name__], on_condition=look)), events
    SlowSession.started.set()


def order(attempt: int) -> TaskOrder:
    return TaskOrder(task=TASK, entry_point=f"{__name__}:Job", config={}, epoch=Epoch(1), attempt=attempt)


async def test_a_task_that_waits_for_spark_has_stopped_at_once_and_never_begins(
    runner: tuple[LocalRunner, list[RunnerEvent]],
) -> None:
    slow, events = runner
    await slow.start(order(1))
    assert await slow.stop([TASK], "revoked", timeout_s=DEADLINE_S) == frozenset()
    assert events == [TaskStopped(order=order(1), reason="revoked")]
    assert not slow.running

    await slow.start(order(2))
    SlowSession.started.set()
    await eventually(lambda: isinstance(events[-1], TaskFinished), "the second attempt has run")
    assert called == [2], "the first one never did"
    assert events[1:] == [TaskStarted(order=order(2)), TaskFinished(order=order(2), result=None)]


class Counting(SlowSession):
    """Of a Spark that has done half of its work when it is asked, and all of it when the task's code has returned."""

    def count(self) -> JobCounts:
        return JobCounts(stages=2, stages_done=1)

    def count_at_the_end(self) -> JobCounts:
        return JobCounts(stages=2, stages_done=2)


class Long(SparkJob):
    may_end = threading.Event()

    def run(self, spark: Any, task: TaskContext) -> None:
        assert self.may_end.wait(DEADLINE_S)


@pytest.mark.parametrize("is_long", [True, False], ids=["told of before", "too short to be told of"])
async def test_of_a_task_that_has_finished_nothing_is_told_to_be_open(
    monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    monkeypatch.setattr(local, "LocalSession", Counting)
    SlowSession.started.set()
    Long.may_end.clear()
    events: list[RunnerEvent] = []
    runner = begins_at_once(LocalRunner(events.append, allowed=[__name__], tell_every_s=0.01 if is_long else 60))
    await runner.start(replace(order(1), entry_point=f"{__name__}:Long"))
    if is_long:
        await eventually(lambda: any(isinstance(event, TaskProgressed) for event in events))
    Long.may_end.set()
    await eventually(lambda: bool(events) and isinstance(events[-1], TaskFinished))
    told = [event.progress for event in events if isinstance(event, TaskProgressed)]
    assert told == ([JobCounts(stages=2, stages_done=1), JobCounts(stages=2, stages_done=2)] if is_long else [])
    await runner.close()


async def test_spark_is_said_to_start_until_it_has_though_nothing_waits_for_it_any_more(
    runner: tuple[LocalRunner, list[RunnerEvent]], looks: list[Callable[[], None]]
) -> None:
    slow, _ = runner
    told: list[bool] = []
    looks.append(lambda: told.append(slow.opening))
    assert not slow.opening
    await slow.start(order(1))
    assert slow.opening
    await slow.stop([TASK], "paused", timeout_s=DEADLINE_S)
    assert slow.opening
    SlowSession.started.set()
    await eventually(lambda: told[-1:] == [False], "who has waited for that is told")


async def test_while_tasks_wait_for_spark_to_start_it_says_so(
    runner: tuple[LocalRunner, list[RunnerEvent]], looks: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "LOOK_S", 0.01)
    slow, events = runner
    told = [""]
    looks.append(lambda: told.append(slow.condition))
    await slow.start(order(1))
    await eventually(lambda: told == ["", "starting Spark"])
    SlowSession.started.set()
    await eventually(lambda: [type(event) for event in events] == [TaskStarted, TaskFinished])
    assert told == ["", "starting Spark", ""]


async def test_short_tasks_that_begin_one_after_the_other_do_not_wait_for_spark(
    runner: tuple[LocalRunner, list[RunnerEvent]], looks: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever somebody looks, one is there whose session is about to be opened."""
    monkeypatch.setattr(attached, "LOOK_S", DEADLINE_S)
    slow, events = runner
    told: list[str] = []
    looks.append(lambda: told.append(slow.condition))
    for attempt in range(1, 9):
        SlowSession.started.clear()
        await slow.start(order(attempt))
        slow._look_who_awaits_spark()
        SlowSession.started.set()
        await eventually(lambda: len(events) == 2 * attempt)  # noqa: B023 - waited for within the turn
    assert told == []


async def test_a_runner_that_closes_waits_for_spark_to_have_started(
    runner: tuple[LocalRunner, list[RunnerEvent]],
) -> None:
    """Else it would start in a process that is about to end."""
    slow, events = runner
    await slow.start(order(1))
    threading.Timer(0.3, SlowSession.started.set).start()
    assert await slow.close(timeout_s=DEADLINE_S) == frozenset()
    assert SlowSession.started.is_set()
    assert [type(event) for event in events] == [TaskStopped]
    assert not called


async def test_a_runner_that_closes_does_not_wait_for_ever_for_spark(
    runner: tuple[LocalRunner, list[RunnerEvent]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Starting it in a cluster may take minutes, and nobody can stop it before it has started."""
    slow, _ = runner
    started = threading.Event()
    monkeypatch.setattr(local, "APPLICATION", SimpleNamespace(release=lambda _user: started.wait(TEST_LIMIT_S)))
    assert await slow.close(timeout_s=0.05) == frozenset()
    assert "Spark has not stopped within" in caplog.text, "in what was left of the time"
    started.set()
