"""The story of a membership: what one has to know to find a fault, and nothing that fills the log."""

from __future__ import annotations

from airflow_provider.group.classic.member.events import (
    HeartbeatAnswered,
    Joined,
    JoinedMember,
    SendHeartbeat,
    SendSync,
)
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.holding import StopReason
from airflow_provider.group.live.recent_events import RecentEvents
from airflow_provider.group.machine.events import ArmTimer, StopTasks, TasksStopped, TimerFired
from airflow_provider.values.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol, TaskId

STABLE = Phase.STABLE
BEAT = SendHeartbeat(seq=1, node=1, member_id=MemberId("m"), generation=GenerationId(1))


def answered(error: KafkaErrorCode) -> HeartbeatAnswered:
    return HeartbeatAnswered(now_ms=7, sent_at_ms=6, member_id=MemberId("m"), generation=GenerationId(1), error=error)


def test_heartbeats_that_go_well_are_no_story() -> None:
    story = RecentEvents()
    story.add(TimerFired(now_ms=1), STABLE, STABLE, [BEAT, ArmTimer(at_ms=9)])
    story.add(answered(KafkaErrorCode.NONE), STABLE, STABLE, [ArmTimer(at_ms=9)])
    assert str(story) == ""


def test_what_a_heartbeat_brings_about_is() -> None:
    story = RecentEvents()
    story.add(answered(KafkaErrorCode.REBALANCE_IN_PROGRESS), STABLE, STABLE, [])
    story.add(TimerFired(now_ms=8), STABLE, STABLE, [StopTasks(tasks=frozenset(), reason=StopReason.LEASE_OVER)])
    text = str(story)
    assert "error=REBALANCE_IN_PROGRESS" in text
    assert "    StopTasks(tasks={}, reason=LEASE_OVER)" in text


def test_each_step_is_told_with_its_phases_and_in_short() -> None:
    story = RecentEvents()
    members = tuple(JoinedMember(member_id=MemberId("m"), instance_id=None, metadata=b"x" * 999) for _ in range(3))
    joined = Joined(
        now_ms=5,
        seq=2,
        generation=GenerationId(4),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("m"),
        member_id=MemberId("m"),
        members=members,
    )
    sync = SendSync(
        seq=3,
        node=1,
        member_id=MemberId("m"),
        generation=GenerationId(4),
        protocol=SubProtocol.SESSIONED,
        assignments={MemberId("m"): b"y" * 999},
    )
    story.add(joined, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE, [sync, ArmTimer(at_ms=9)])
    first, second = str(story).splitlines()
    assert first.startswith("5 ms, preparing rebalance -> completing rebalance: Joined(seq=2, generation=4,")
    assert "members=<3>" in first
    assert second.startswith("    SendSync(")
    assert "assignments=<1>" in second


def test_of_many_tasks_a_few_are_named() -> None:
    story = RecentEvents()
    story.add(TasksStopped(now_ms=1, tasks=frozenset(TaskId("a", i) for i in range(9))), STABLE, STABLE, [])
    assert "tasks={a:0, a:1, a:2, a:3, a:4, a:5, ...}" in str(story)


def test_only_the_last_steps_are_kept() -> None:
    story = RecentEvents()
    for at_ms in range(500):
        story.add(TasksStopped(now_ms=at_ms, tasks=frozenset()), STABLE, STABLE, [])
    lines = str(story).splitlines()
    assert len(lines) == 30
    assert lines[-1].startswith("499 ms")
