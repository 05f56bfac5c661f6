"""The story of a machine: what one has to know to find a fault, and nothing that fills the log."""

from __future__ import annotations

from airflow_provider.group.classic.member.events import (
    HeartbeatAnswered,
    Joined,
    JoinedMember,
    SendHeartbeat,
    SendSync,
)
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.live.classic.classic_member import is_routine
from airflow_provider.group.machine.events import StopTasks, TasksStopped, TimerFired
from airflow_provider.state.records import JobDefinition, TaskWork
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, GenerationId, MemberId, SubProtocol, TaskId
from airflow_provider.values.recent_events import Story
from airflow_provider.worker.tasks.commands import StartAttempt
from airflow_provider.worker.tasks.runs.runs import TaskRun

BEAT = SendHeartbeat(seq=1, node=1, member_id=MemberId("m"), generation=GenerationId(1))


def answered(error: KafkaErrorCode) -> HeartbeatAnswered:
    return HeartbeatAnswered(now_ms=7, sent_at_ms=6, member_id=MemberId("m"), generation=GenerationId(1), error=error)


def test_heartbeats_that_go_well_are_no_story() -> None:
    assert is_routine(TimerFired(now_ms=1), [BEAT])
    assert is_routine(answered(KafkaErrorCode.NONE), [])


def test_what_a_heartbeat_brings_about_is() -> None:
    assert not is_routine(answered(KafkaErrorCode.REBALANCE_IN_PROGRESS), [])
    stop = StopTasks(tasks=frozenset(), reason=StopReason.LEASE_OVER)
    assert not is_routine(TimerFired(now_ms=8), [stop])
    story = Story()
    story.add("7 ms", answered(KafkaErrorCode.REBALANCE_IN_PROGRESS), [stop])
    first, second = str(story).splitlines()
    assert "error=REBALANCE_IN_PROGRESS" in first
    assert second == "    StopTasks(tasks={}, reason=LEASE_OVER)"


def test_each_step_is_told_in_short() -> None:
    story = Story()
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
    story.add("5 ms, preparing rebalance -> completing rebalance", joined, [sync])
    first, second = str(story).splitlines()
    assert first.startswith("5 ms, preparing rebalance -> completing rebalance: Joined(seq=2, generation=4,")
    assert "members=<3>" in first
    assert second.startswith("    SendSync(")
    assert "assignments=<1>" in second


def test_a_value_inside_is_told_by_its_names_alone() -> None:
    story = Story()
    definition = JobDefinition(name="a", entry_point="m:f", max_tasks=1, run_key="r")
    work = TaskWork(task=TaskId("a", 0), definition=definition, config={"password": "secret"}, fingerprint="f")
    story.add("1 ms", StartAttempt(run=TaskRun(work=work, epoch=Epoch(3))), [])
    assert str(story) == "1 ms: StartAttempt(run=<TaskRun task=a:0 epoch=3>)"


def test_of_many_tasks_a_few_are_named() -> None:
    story = Story()
    story.add("1 ms", TasksStopped(now_ms=1, tasks=frozenset(TaskId("a", i) for i in range(9))), [])
    assert str(story) == "1 ms: TasksStopped(tasks={a:0, a:1, a:2, a:3, a:4, a:5, ...})"


def test_only_the_last_steps_are_kept() -> None:
    story = Story()
    for at_ms in range(500):
        story.add(f"{at_ms} ms", TasksStopped(now_ms=at_ms, tasks=frozenset()), [])
    lines = str(story).splitlines()
    assert len(lines) == 30
    assert lines[-1].startswith("499 ms")
