"""A worker of a classic group at which tasks fail for good: it tries them again without a round, whoever holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from waiting import eventually
from worker_life import A0, A1, ME, Life, living

from airflow_provider.state.records import TaskKind, TaskState, WorkerPhase
from airflow_provider.state.views.task_progress.progress import has_failed, may_run, needs_running
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.hands.standby import Standby
from airflow_provider.worker.lease import WorkerLease

pytestmark = pytest.mark.turned_clock


async def _fail(life: Life, *tasks: TaskId) -> None:
    for task in tasks:
        life.runner.fail(task, "boom", retryable=False)
    await eventually(lambda: all(life.state(task) is TaskState.FAILED for task in tasks), f"{tasks} have failed")


def _in_triggerer(life: Life) -> None:
    """Its next process runs nothing, as a triggerer."""
    topics = life.topics

    def stays(task: TaskId) -> bool:
        return needs_running(task, topics.jobs, topics.status.tasks)

    def failed(task: TaskId) -> bool:
        return has_failed(task, topics.jobs, topics.status.tasks)

    def due(task: TaskId) -> bool:
        return may_run(task, topics.jobs, topics.status.tasks)

    def standby(stopped: Released, _finished: Released, changed: Callable[[], None], _lease: WorkerLease) -> Standby:
        return Standby(stays, failed, due, stopped, changed, 0.0)

    life.make_hands = standby
    life.settings = replace(life.settings, phase=WorkerPhase.DEFERRED)


async def test_it_goes_on_with_the_rest_and_tries_again_in_the_same_epoch() -> None:
    async with living() as life:
        epoch = life.worker.applied()
        await _fail(life, A0)
        assert life.member.view.owned == {A0, A1}
        assert await life.topics.retry_failed("a", by="me") == (A0,)
        await life.runs(A0, A1)
        assert life.topics.status.tasks[A0].attempt == 2
        assert life.worker.applied() == epoch
        assert not life.topics.status.tasks[A0].kept


async def test_with_nothing_but_failures_it_defers_and_is_woken_by_another_try() -> None:
    life = Life()
    life.linger_s = 0.05
    in_task = life.make_hands
    await life.submit(kind=TaskKind.STREAMING, tasks=1)
    life.begin()
    await life.runs(A0)
    epoch: Epoch = life.worker.applied()
    await _fail(life, A0)
    saved = (await life.outcome()).saved
    assert saved is not None
    assert saved["member"]["owned"] == [["a", 0]]

    _in_triggerer(life)
    life.begin(saved)
    await eventually(lambda: life.phase is WorkerPhase.DEFERRED)
    assert not life.ended
    await life.topics.retry_failed("a", by="me")
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    life.make_hands, life.settings = in_task, replace(life.settings, phase=WorkerPhase.STABLE)
    life.linger_s = 60
    life.begin(outcome.saved)
    await life.runs(A0)
    assert life.worker.applied() == epoch
    assert life.topics.status.workers[ME].owned == {A0}
    await life.cancel()


async def test_it_leaves_though_it_keeps_something() -> None:
    async with living() as life:
        await _fail(life, A0)
        life.worker.leave("enough")
        assert (await life.outcome()).ending is Ending.LEFT
