"""A worker that has nothing but paused tasks: a triggerer holds them for it, in both group protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from declarative_life import DeclarativeLife
from turned_clock import time_passes
from waiting import eventually
from worker_life import A0, A1, Life

from airflow_provider.operations.operations import HaltJob, ResumeJob
from airflow_provider.records import Halt, TaskKind, WorkerPhase
from airflow_provider.worker.ending import Ending
from airflow_provider.worker.standby import InTriggerer

PAUSE, RESUME = HaltJob(job="a", halt=Halt.PAUSED), ResumeJob(job="a")


async def _handed_over(life: Life) -> Any:
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    assert outcome.saved is not None
    return outcome.saved


@pytest.mark.turned_clock
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
