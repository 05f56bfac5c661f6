"""A membership in a declarative group goes from a process to a triggerer, and back: nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from declarative_life import DeclarativeLife, living_declared
from waiting import eventually
from worker_life import A0, A1

from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.state.records import WorkerPhase
from airflow_provider.values.model import NO_TASKS
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.hands.standby import Standby
from airflow_provider.worker.lease import WorkerLease

pytestmark = pytest.mark.turned_clock


def standby(stopped: Released, _finished: Released, changed: Callable[[], None], _lease: WorkerLease) -> Standby:
    return Standby(lambda _task: True, lambda _task: False, lambda _task: True, stopped, changed, 0.0)


async def handed_over(life: DeclarativeLife) -> Any:
    life.worker.hand_over()
    outcome = await life.outcome()
    assert outcome.ending is Ending.HANDED_OVER
    return outcome.saved


async def goes_on(life: DeclarativeLife, saved: Any) -> None:
    """Its second heartbeat there is answered, or held: then all that it has to say of itself is said."""
    asked = len(life.channel.asked)
    life.begin(saved)
    await eventually(lambda: life.worker._record.stored and len(life.channel.asked) > asked + 2, "it goes on")


async def ends_all(life: DeclarativeLife) -> GroupEpoch:
    """:returns: the group's epoch when it is at rest"""
    life.runner.finish(A0)
    life.runner.finish(A1)
    group = life.channel.coordinator.groups["g"]
    await eventually(
        lambda: life.declarative.view.settled and not group.configured and int(group.epoch) == group.target.epoch,
        "nothing is left",
    )
    assert life.declarative.view.owned == NO_TASKS
    return group.epoch


@pytest.mark.slow
@pytest.mark.parametrize("returns_ms", [None, 0, 5_000])
async def test_it_goes_to_a_triggerer_and_back_without_another_epoch(returns_ms: int | None) -> None:
    """A triggerer does not know in what time the worker would be back."""
    async with living_declared(returns_ms=returns_ms) as life:
        epoch = await ends_all(life)
        in_its_process, hands = life.settings, life.make_hands
        saved = await handed_over(life)
        life.settings = replace(life.settings, phase=WorkerPhase.DEFERRED, returns_ms=None)
        life.make_hands = standby
        await goes_on(life, saved)
        assert life.channel.coordinator.groups["g"].epoch == epoch
        saved = await handed_over(life)
        life.settings, life.make_hands = in_its_process, hands
        await goes_on(life, saved)
        assert life.channel.coordinator.groups["g"].epoch == epoch
        said = {
            body.client_assignors
            for body in life.channel.asked
            if isinstance(body, ConnectGroupHeartbeatRequest) and body.client_assignors
        }
        assert len(said) == 1


async def test_what_it_has_asked_is_written_before_it_goes_on_elsewhere() -> None:
    """Else another process may be heard before, as the same member."""
    async with living_declared() as life:
        await ends_all(life)
        life.channel.written.clear()
        handing_over = asyncio.ensure_future(life.declarative.hand_over())
        await eventually(lambda: life.channel.settling, "it waits")
        asked = len(life.channel.asked)
        assert not handing_over.done()
        life.channel.written.set()
        await handing_over
        assert len(life.channel.asked) == asked


@pytest.mark.slow
async def test_what_it_has_computed_is_told_before_it_goes_on_elsewhere() -> None:
    async with living_declared() as life:
        await ends_all(life)
        life.topics.takes_s = 0.2
        await life.topics.remove("a")
        await life.submit(tasks=1)
        group = life.channel.coordinator.groups["g"]
        told = life.topics.status.group
        assert told is not None
        await eventually(lambda: group.target.epoch > told.epoch and life.declarative._writes, "it is on its way")
        await life.declarative.hand_over()
        record = life.topics.status.group
        assert record is not None
        assert int(record.epoch) == group.target.epoch
