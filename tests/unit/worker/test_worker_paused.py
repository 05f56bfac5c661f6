"""A worker that has nothing but paused tasks: a triggerer holds them for it, in both group protocols."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from declarative_life import DeclarativeLife
from turned_clock import time_passes
from waiting import eventually
from worker_life import A0, A1, LONG, Life

from airflow_provider.state.operations.operations import HaltJob, ResumeJob
from airflow_provider.state.records import Halt, TaskKind, WorkerPhase
from airflow_provider.values.model import Tasks
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.hands.standby import InTriggerer

pytestmark = pytest.mark.turned_clock

PAUSE, RESUME = HaltJob(job="a", halt=Halt.PAUSED), ResumeJob(job="a")


async def _handed_over(life: Life) -> Any:
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    assert outcome.saved is not None
    return outcome.saved


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Life, DeclarativeLife], ids=["classic", "connect"])
async def test_its_tasks_stay_its_own_in_the_triggerer_and_go_on_when_the_pause_has_ended(kind: type[Life]) -> None:
    life = kind()
    life.linger_s = 2.0
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await life.runs(A0, A1)
    epoch = life.worker.applied()
    await life.topics.carry_out(PAUSE, by="me")
    await eventually(lambda: not life.runner.running, "both have stopped")
    saved = await _handed_over(life)

    in_process, settings = life.make_hands, life.settings
    life.settings = replace(settings, phase=WorkerPhase.DEFERRED)
    life.make_hands = InTriggerer(lambda: 0.0).make_hands(life.settings, life.topics)
    life.begin(saved)
    await eventually(lambda: life.phase is WorkerPhase.DEFERRED)
    await time_passes(60)
    assert not life.ended, "there is nothing to run"
    assert life.worker.member.view.owned == {A0, A1}
    await life.topics.carry_out(RESUME, by="me")
    saved = await _handed_over(life)

    life.settings, life.make_hands, life.linger_s = settings, in_process, 60.0
    life.begin(saved)
    await life.runs(A0, A1)
    assert life.worker.applied() == epoch, "nobody has rebalanced"
    assert {life.topics.status.tasks[task].attempt for task in (A0, A1)} == {2}
    await life.cancel()
    if isinstance(life, DeclarativeLife):
        life.channel.close()


async def test_a_process_whose_spark_still_starts_is_kept_for_it_and_a_resume_goes_on_there() -> None:
    life = Life(member=LONG)
    life.linger_s = 2.0
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await life.runs(A0, A1)
    life.runner.opens(True)
    await life.topics.carry_out(PAUSE, by="me")
    await time_passes(60)
    assert not life.ended, "another process would start Spark anew"
    await life.topics.carry_out(RESUME, by="me")
    await life.runs(A0, A1)

    await life.topics.carry_out(PAUSE, by="me")
    await time_passes(60)
    assert not life.ended
    life.runner.opens(False)
    await _handed_over(life)


async def test_what_is_to_run_again_by_the_time_that_spark_has_stopped_is_said_at_the_end() -> None:
    life = Life()
    life.linger_s = 0.05
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await life.runs(A0, A1)
    close, closing, closed = life.runner.close, asyncio.Event(), asyncio.Event()

    async def slow_close(*, timeout_s: float = 30.0) -> Tasks:
        closing.set()
        await closed.wait()
        left: Tasks = await close(timeout_s=timeout_s)
        return left

    life.runner.close = slow_close
    await life.topics.carry_out(PAUSE, by="me")
    await closing.wait()
    await life.topics.carry_out(RESUME, by="me")
    closed.set()
    assert (await life.outcome()).came == {A0, A1}


async def test_a_membership_that_is_handed_over_for_its_tasks_does_not_say_that_they_came() -> None:
    """A triggerer gives it up because there is something to run: that is not for it to go on with."""
    life = Life(phase=WorkerPhase.DEFERRED)
    life.make_hands = InTriggerer(lambda: 0.0).make_hands(life.settings, life.topics)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    await _handed_over(life)
    assert (await life.outcome()).came == frozenset()
