"""A membership reads in the status topic that its group is about to rebalance."""

from __future__ import annotations

from typing import Any

from stand_ins import IdleListener, MemoryTopics, SlowCoordinator
from waiting import eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, WorkerId

HOUR_MS = 3_600_000
SETTINGS = MemberSettings(
    group_id="g",
    worker=WorkerId("w"),
    session_timeout_ms=3 * HOUR_MS,
    rebalance_timeout_ms=3 * HOUR_MS,
    heartbeat_interval_ms=HOUR_MS,
    fast_heartbeat_ms=HOUR_MS,
)
"""No heartbeat is due while a test runs."""
NEWCOMER = WorkerStatus(worker=WorkerId("other"), state=WorkerPhase.JOINING, epoch=Epoch(1), slots=1)


async def joined(coordinator: SlowCoordinator, topics: MemoryTopics) -> GroupMember:
    transport: Any = coordinator
    member = GroupMember(MemberState(settings=SETTINGS), transport, topics, IdleListener(), policy=Deferred())
    member.begin(Predecessor.GONE)
    await eventually(lambda: member.state.phase is Phase.STABLE, "it is in its group")
    return member


async def test_it_joins_the_rebalance_without_waiting_for_the_turn_of_its_heartbeat(
    coordinator: SlowCoordinator, topics: MemoryTopics
) -> None:
    member = await joined(coordinator, topics)
    assert coordinator.heartbeats == 0
    coordinator.heartbeats_say = KafkaErrorCode.REBALANCE_IN_PROGRESS
    await topics.publish_worker(NEWCOMER)
    await eventually(lambda: len(coordinator.joins) == 2, "it joins the rebalance")
    await member.aclose()


async def test_what_was_in_the_topic_before_it_began_hints_at_nothing(
    coordinator: SlowCoordinator, topics: MemoryTopics
) -> None:
    await topics.publish_worker(NEWCOMER)
    member = await joined(coordinator, topics)
    heard: list[int] = []
    topics.subscribe(lambda: heard.append(coordinator.heartbeats))
    await topics.publish_worker(WorkerStatus(worker=WorkerId("w"), state=WorkerPhase.STABLE, epoch=Epoch(1), slots=1))
    await eventually(lambda: heard, "it has read on")
    assert coordinator.heartbeats == 0
    await member.aclose()
