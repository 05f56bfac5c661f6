"""A worker of another group protocol than Kafka's: it knows of its membership what the port says, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from told_membership import HELD, OtherLife, joining_elsewhere, living_elsewhere
from turned_clock import time_passes
from waiting import eventually
from worker_life import A0, A1, ME

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.membership import Ended, HowEnded
from airflow_provider.kafka.clock import now_ms
from airflow_provider.state.records import WorkerPhase
from airflow_provider.values.model import NO_TASKS, Epoch
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.endings.handed_over import HandedOver

pytestmark = pytest.mark.turned_clock


@pytest.fixture
async def life() -> AsyncIterator[OtherLife]:
    async with living_elsewhere() as life:
        yield life


async def test_it_runs_what_it_is_assigned_and_gives_up_what_is_revoked(life: OtherLife) -> None:
    grant = life.worker.lease.grant
    life.membership.stop(frozenset({A0}), StopReason.REVOKED)
    await eventually(lambda: life.membership.owned == {A1}, "it is released")
    assert life.worker.lease.grant == grant, "what goes on is held as before"
    life.membership.assign(NO_TASKS)
    await eventually(lambda: life.topics.status.workers[ME].owned == {A1}, "and its record says so")
    said = life.topics.status.workers[ME]
    assert (said.epoch, said.member_id, said.state) == (2, HELD, WorkerPhase.STABLE)


@pytest.mark.parametrize("reason", list(StopReason))
async def test_the_reason_says_whether_the_lease_is_another_one_afterwards(life: OtherLife, reason: StopReason) -> None:
    grant = life.worker.lease.grant
    life.membership.stop(frozenset({A0, A1}), reason)
    assert (life.worker.lease.grant > grant) == (
        reason not in (StopReason.REVOKED, StopReason.LEARNED, StopReason.EAGER)
    )


async def test_it_leaves_when_everything_has_stopped(life: OtherLife) -> None:
    life.runner.stubborn.add(A1)
    life.worker.leave("enough")
    await eventually(lambda: life.membership.owned == {A1})
    assert not life.ended
    life.runner.let_go(A1)
    assert (await life.outcome()).ending is Ending.LEFT
    assert life.membership.leaving == "enough"


@pytest.mark.parametrize(("how", "ending"), [(HowEnded.FENCED, Ending.FENCED), (HowEnded.FAILED, Ending.FAILED)])
async def test_how_its_membership_ends_is_how_it_ends(life: OtherLife, how: HowEnded, ending: Ending) -> None:
    life.membership.stop(life.membership.owned, StopReason.FENCED)
    life.membership.listener.ended(Ended(how=how, error="no such member"))
    outcome = await life.outcome()
    assert (outcome.ending, outcome.error) == (ending, "no such member")


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
async def test_it_lingers_from_when_it_is_in_its_group_however_long_that_took(again: bool) -> None:
    async with living_elsewhere(linger_s=0.2) if again else joining_elsewhere(linger_s=0.2) as life:
        life.membership.epoch = Epoch(0)
        life.membership.stop(life.membership.owned, StopReason.EXPELLED)
        await eventually(lambda: not life.membership.owned, "it has nothing")
        await time_passes(10)
        joined_ms = now_ms()
        life.membership.assign(NO_TASKS)
        assert (await life.outcome()).ending is Ending.HANDED_OVER
        assert now_ms() - joined_ms >= 200


async def test_what_its_membership_saves_comes_back_to_it_unseen() -> None:
    async with living_elsewhere(linger_s=0.0) as life:
        life.membership.stop(life.membership.owned, StopReason.REVOKED)
        outcome = await life.outcome()
        assert outcome.ending is Ending.HANDED_OVER
        assert outcome.saved is not None
        assert HandedOver.from_json(outcome.saved).membership == {HELD: 1}
        life.begin(outcome.saved)
        assert life.membership.epoch == 1
