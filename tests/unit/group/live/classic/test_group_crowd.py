"""What one membership leaves undone so that thousands get along in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from stand_ins import IdleListener, MemoryTopics, SlowCoordinator
from waiting import eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.live.classic.classic_membership import ClassicProtocol
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import WorkerId

SETTINGS = MemberSettings(
    group_id="g",
    worker=WorkerId("w"),
    session_timeout_ms=60_000,
    heartbeat_interval_ms=5,
    fast_heartbeat_ms=5,
    lease_margin_ms=200,
    retry_backoff_ms=10,
    retry_backoff_max_ms=10,
)


class CrowdedCoordinator(SlowCoordinator):
    """Many others come first, if the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.room = asyncio.Event()
        self.room.set()
        self.turns = 0

    async def turn(self) -> None:
        self.turns += 1
        await self.room.wait()


@pytest.fixture
async def coordinator() -> CrowdedCoordinator:
    return CrowdedCoordinator()


@pytest.fixture
async def member(coordinator: CrowdedCoordinator) -> AsyncIterator[GroupMember]:
    state = MemberState(settings=SETTINGS)
    listener = IdleListener()
    transport: Any = coordinator
    member = GroupMember(state, transport, MemoryTopics(), listener, policy=Deferred(max_delay_ms=0))
    yield member
    await member.aclose()


def begin(member: GroupMember) -> None:
    member.begin(Predecessor.GONE)


async def test_no_more_than_one_heartbeat_waits_for_its_turn(
    member: GroupMember, coordinator: CrowdedCoordinator
) -> None:
    begin(member)
    await eventually(lambda: member.state.phase is Phase.STABLE and coordinator.heartbeats > 2, "it heartbeats")
    coordinator.room.clear()
    before = member.state.seq
    await eventually(lambda: member.state.seq > before + 5, "more heartbeats are due")
    turns = coordinator.turns
    before = member.state.seq
    await eventually(lambda: member.state.seq > before + 5, "and more")
    assert coordinator.turns == turns
    sent = coordinator.heartbeats
    coordinator.room.set()
    await eventually(lambda: coordinator.heartbeats > sent + 2, "it goes on when there is room")


async def test_a_join_that_was_not_answered_is_given_up_for_the_next_one(
    member: GroupMember, coordinator: CrowdedCoordinator
) -> None:
    """Else it might be sent later, and look like another process under this worker's name."""
    begin(member)
    await eventually(lambda: member.state.phase is Phase.STABLE, "it is in the group")
    coordinator.answers.clear()
    coordinator.heartbeats_say = KafkaErrorCode.REBALANCE_IN_PROGRESS
    await eventually(lambda: coordinator.joins[1:] == ["waits"], "it joins again")
    coordinator.away = TransportError("gone", fault=Fault.CONNECTION)
    await eventually(lambda: member.state.phase is Phase.UNJOINED, "its heartbeats fail, so the join may be lost")
    coordinator.away = None
    await eventually(lambda: coordinator.joins[1:3] == ["given up", "waits"], "it joins once more")
    coordinator.heartbeats_say = KafkaErrorCode.NONE
    coordinator.answers.set()
    await eventually(lambda: member.state.phase is Phase.STABLE, "it is in the group again")
    assert coordinator.joins[2] == "answered"


async def test_memberships_that_could_begin_together_begin_a_few_in_a_turn_of_the_loop() -> None:
    kafka, until = KafkaSettings.from_extra({"bootstrap.servers": "localhost:9"}, conn_id="kafka"), asyncio.Event()
    begun = 0

    async def begin_one() -> None:
        nonlocal begun
        protocol: Any = ClassicProtocol(SETTINGS, Deferred())
        async with protocol.memberships(kafka, MemoryTopics(), None):
            begun += 1
            await until.wait()

    crowd = [asyncio.ensure_future(begin_one()) for _ in range(300)]
    most = 0
    while begun < len(crowd):
        before = begun
        await asyncio.sleep(0)
        most = max(most, begun - before)
    assert 0 < most <= 20
    until.set()
    await asyncio.gather(*crowd)
