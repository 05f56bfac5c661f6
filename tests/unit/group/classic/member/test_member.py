"""What a member does, event by event: the exact commands that come out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from member_script import (
    LEASE_MS,
    MARGIN_MS,
    ME,
    NODE,
    OTHER,
    SESSION_MS,
    SETTINGS,
    Script,
    only_join,
    published,
    tasks,
    told,
)

from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    CoordinatorFound,
    Left,
    PerformAssignment,
    RebalanceWanted,
    Request,
    RequestFailed,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
)
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import (
    ConfigAdvanced,
    LeaveRequested,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, GenerationId, SubProtocol

CONFIG_MISMATCH = 1


@pytest.fixture
def script() -> Script:
    return Script()


# ---- into the group


def test_a_worker_starts_and_joins(script: Script) -> None:
    script.started(config_offset=3)
    assert script.state.phase is Phase.UNJOINED
    join = only_join(script.feed(CoordinatorFound, node=NODE))
    assert (join.node, join.member_id, join.reason) == (NODE, "", "a worker starts")
    assert [name for name, _ in join.protocols] == ["sessioned", "compatible", "default"]
    assert {(metadata.config_offset, metadata.assignment) for metadata in told(join)} == {(3, None)}


def test_a_dynamic_member_is_told_its_id_and_joins_with_it(script: Script) -> None:
    first = script.joining().state
    join = only_join(script.rejected(Request.JOIN, KafkaErrorCode.MEMBER_ID_REQUIRED, member_id=ME))
    assert join.member_id == ME
    assert join.seq > first.seq


def test_a_follower_asks_for_its_assignment(script: Script) -> None:
    script.joining()
    (sync,) = script.joined(4)
    assert isinstance(sync, SendSync)
    assert sync == SendSync(
        seq=sync.seq,
        node=NODE,
        member_id=ME,
        generation=GenerationId(4),
        protocol=SubProtocol.COMPATIBLE,
        assignments={},
    )


def test_the_leader_assigns_and_sends_it_with_its_sync(script: Script) -> None:
    script.joining()
    (perform,) = script.joined(4, leader=ME)
    assert isinstance(perform, PerformAssignment)
    assert (perform.generation, perform.leader, perform.reason) == (4, ME, "a worker starts")
    assert perform.last_record is None
    (sync,) = script.feed(AssignmentComputed, assignments={ME: b"mine", OTHER: b"its"}, record=None)
    assert isinstance(sync, SendSync)
    assert sync.assignments == {ME: b"mine", OTHER: b"its"}


def test_an_assignment_is_a_difference(script: Script) -> None:
    script.stable("a0 a1 a2")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    commands = script.synced("b0", revoked="a1")
    assert commands == [
        StopTasks(tasks=tasks("a1"), reason=StopReason.REVOKED),
        StartTasks(tasks=tasks("b0"), epoch=script.state.epoch),
        published(script, "a0 a1 a2 b0", revoking="a1"),
    ]


def test_whoever_had_to_stop_anything_joins_again_as_soon_as_it_has_stopped(script: Script) -> None:
    script.stable("a0 a1 a2")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a1 a2")
    assert script.feed(TasksStopped, tasks=tasks("a2")) == []
    join = only_join(script.feed(TasksStopped, tasks=tasks("a1")))
    assert join.reason == "revoked tasks have stopped"
    assert told(join)[1].owned == tasks("a0")


def test_revoked_is_also_what_a_returning_worker_is_not_given_yet(script: Script) -> None:
    """It runs nowhere; all it means is: join again immediately, and be given it in the next round."""
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    commands = script.synced(revoked="b0")
    assert commands[0] == published(script, "a0")
    assert only_join(commands[1:]).reason == "revoked tasks have stopped"


def test_what_runs_is_not_started_a_second_time(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    assert script.synced("a0 a1") == [
        StartTasks(tasks=tasks("a1"), epoch=script.state.epoch),
        published(script, "a0 a1"),
    ]


def test_a_scheduled_delay_ends_with_a_join_that_makes_the_coordinator_rebalance(script: Script) -> None:
    script.stable("a0")
    before = only_join(script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS))
    script.joined(3)
    script.synced(delay_ms=300_000)
    began = script.now
    last: SendJoin | None = None
    while last is None:
        for at, command in script.alarms(until=script.now + 1_000):
            assert isinstance(command, (SendHeartbeat, SendJoin))
            last = command if isinstance(command, SendJoin) else None
            assert last is None or at == began + 300_000
        if last is None:
            script.heartbeat()
    assert last.reason == "the scheduled delay is over"
    assert last.protocols != before.protocols, "with the same metadata a follower is just answered with the last round"


# ---- what is not started immediately


def test_a_member_behind_on_the_jobs_topic_catches_up_before_it_starts_anything(script: Script) -> None:
    script.stable("")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    assert script.synced("a0 a1", config_offset=12) == [published(script, "a0 a1")]
    assert script.feed(ConfigAdvanced, config_offset=ConfigOffset(11)) == []
    assert script.feed(ConfigAdvanced, config_offset=ConfigOffset(12)) == [
        StartTasks(tasks=tasks("a0 a1"), epoch=script.state.epoch)
    ]


def test_config_mismatch_leaves_a_follower_where_it_is(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    assert script.synced(error=CONFIG_MISMATCH, config_offset=12) == []
    assert script.state.running == tasks("a0"), "it goes on with what it has"
    for offset in (11, 12, 13):
        assert script.feed(ConfigAdvanced, config_offset=ConfigOffset(offset)) == []


def test_config_mismatch_is_mended_by_the_leader_when_it_has_caught_up(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3, leader=ME)
    script.feed(AssignmentComputed, assignments={}, record=None)
    assert script.synced(error=CONFIG_MISMATCH, config_offset=12) == []
    assert script.feed(ConfigAdvanced, config_offset=ConfigOffset(11)) == []
    assert script.feed(RebalanceWanted, reason="new work") == [], "it could not assign it either"
    join = only_join(script.feed(ConfigAdvanced, config_offset=ConfigOffset(12)))
    assert join.reason == "the leader has read the jobs topic as far as the others"


def test_nothing_starts_under_a_lease_that_may_be_over(script: Script) -> None:
    script.stable("")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    joined_at = script.now
    script.at(joined_at + SESSION_MS).joined(3)
    assert script.synced("a0") == [published(script, "a0")], "the join took a whole session"
    assert script.heartbeat() == [StartTasks(tasks=tasks("a0"), epoch=script.state.epoch)]


# ---- the lease


def test_tasks_stop_before_the_session_ends_if_no_heartbeat_is_answered(script: Script) -> None:
    script.stable("a0 a1")
    heard_at = script.now
    script.heartbeat()
    stops = [(at, command) for at, command in script.alarms(until=heard_at + SESSION_MS) if _is_stop(command)]
    assert stops == [(heard_at + LEASE_MS - MARGIN_MS, StopTasks(tasks=tasks("a0 a1"), reason=StopReason.LEASE_OVER))]


def _is_stop(command: object) -> bool:
    return isinstance(command, StopTasks)


def test_answered_heartbeats_prolong_the_lease_from_when_they_were_sent(script: Script) -> None:
    script.stable("a0")
    script.at(script.now + 3_000).heartbeat(sent_at_ms=script.now - 1_000)
    assert script.state.lease_until == script.now - 1_000 + LEASE_MS


@pytest.mark.parametrize(("drift", "coordinators_ms"), [(0.995, 1.005), (0.99, 1.0)])
def test_a_lease_ends_before_the_session_by_a_clock_that_is_one_per_cent_slower(
    drift: float, coordinators_ms: float
) -> None:
    assert LEASE_MS / drift <= SESSION_MS / coordinators_ms


def test_what_was_assigned_under_a_lease_that_is_nearly_over_is_started_when_a_heartbeat_was_answered(
    script: Script,
) -> None:
    """The coordinator answered the JoinGroup of a new member only when most of a session had passed."""
    script.joining()
    script.at(script.now + LEASE_MS - MARGIN_MS - 100).joined(1, protocol=SubProtocol.DEFAULT)
    synced = script.synced("a0 a1", protocol=SubProtocol.DEFAULT)
    answered = script.heartbeat()
    started = StartTasks(tasks=tasks("a0 a1"), epoch=script.state.epoch)
    assert started not in synced
    assert started in answered


def test_after_the_lease_was_over_the_worker_starts_again_what_is_still_its_own(script: Script) -> None:
    """The coordinator has not noticed. With unchanged metadata it answers with the last round: the tasks go on here.

    Its session does not begin anew with that answer, so the lease does not either.
    """
    script.stable("a0")
    script.alarms(until=script.now + SESSION_MS)
    only_join(script.feed(TasksStopped, tasks=tasks("a0")))
    script.joined(2)
    assert script.synced("a0") == [published(script, "a0")]
    assert script.heartbeat() == [StartTasks(tasks=tasks("a0"), epoch=script.state.epoch)]


def test_the_lease_ends_at_the_deadline_of_a_rebalance_that_is_not_joined(script: Script) -> None:
    """The coordinator waits for the rebalance timeout only, however often this member heartbeats."""
    script.stable("a0 a1")
    heard_at = script.now
    script.heartbeat()
    script.at(heard_at + 2_500).heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    deadline = heard_at + SETTINGS.rebalance_lease_ms
    for now in range(script.now + 1_000, deadline - MARGIN_MS, 1_000):
        script.at(now)
        commands = script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
        assert not any(map(_is_stop, commands)), "its JoinGroup is on its way, or lost: it cannot know"
    script.heartbeat(sent_at_ms=script.now)
    assert script.state.lease_until == deadline
    stops = [(at, command) for at, command in script.alarms(until=deadline) if _is_stop(command)]
    assert stops == [(deadline - MARGIN_MS, StopTasks(tasks=tasks("a0 a1"), reason=StopReason.LEASE_OVER))]


def test_tasks_that_do_not_stop_do_not_keep_the_member_from_joining_in_time(script: Script) -> None:
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a1")
    script.heartbeat()
    heard_at = script.now
    join = join_after_patience(script)
    assert heard_at + SETTINGS.rebalance_timeout_ms // 2 <= script.now < heard_at + SETTINGS.rebalance_timeout_ms
    assert told(join)[1].owned == tasks("a0 a1"), "it still runs them, so it says so"


def join_after_patience(script: Script) -> SendJoin:
    """The group rebalances, tasks do not stop, heartbeats are answered: until the member joins."""
    while True:
        assert script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS) == []
        for _, command in script.alarms(until=script.now + 1_000):
            if isinstance(command, SendJoin):
                return command


def test_a_leader_whose_task_does_not_stop_sees_to_new_work_all_the_same(script: Script) -> None:
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3, leader=ME)
    script.feed(AssignmentComputed, assignments={}, record=None)
    script.synced(revoked="a1")
    began = script.now
    assert script.feed(RebalanceWanted, reason="new work") == []
    join = join_with_what_runs(script, within_ms=SETTINGS.rebalance_timeout_ms)
    assert script.now >= began + SETTINGS.rebalance_lease_ms // 2
    assert told(join)[1].owned == tasks("a0 a1")


def test_a_task_that_does_not_stop_keeps_back_none_that_have_stopped(script: Script) -> None:
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a0 a1")
    assert script.feed(TasksStopped, tasks=tasks("a0")) == []
    join = join_with_what_runs(script, within_ms=SETTINGS.rebalance_timeout_ms)
    assert told(join)[1].owned == tasks("a1"), "so a0 can start elsewhere"


def test_a_task_that_does_not_stop_and_keeps_nobody_waiting_makes_no_rounds(script: Script) -> None:
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a1")
    with pytest.raises(AssertionError, match="did not join"):
        join_with_what_runs(script, within_ms=10 * SETTINGS.rebalance_timeout_ms)


def join_with_what_runs(script: Script, *, within_ms: int) -> SendJoin:
    """The group is stable, heartbeats are answered: until the member joins."""
    until = script.now + within_ms
    while script.now < until:
        script.heartbeat()
        for _, command in script.alarms(until=script.now + 1_000):
            if isinstance(command, SendJoin):
                return command
    raise AssertionError("it did not join")


def test_tasks_that_stop_while_the_group_rebalances_make_for_another_rebalance(script: Script) -> None:
    """The leader has heard of them; without another round they would run nowhere."""
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a1")
    join_after_patience(script)
    script.feed(TasksStopped, tasks=tasks("a1"))
    script.joined(4)
    commands = script.synced()
    assert only_join(commands[-1:]).reason == "tasks stopped while the group rebalanced"


# ---- eager


def test_in_an_eager_group_everything_stops_before_joining() -> None:
    script = Script().stable("a0 a1", protocol=SubProtocol.DEFAULT)
    assert script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS) == [
        StopTasks(tasks=tasks("a0 a1"), reason=StopReason.EAGER)
    ]
    assert script.feed(TasksStopped, tasks=tasks("a0")) == []
    only_join(script.feed(TasksStopped, tasks=tasks("a1")))
    script.joined(3, protocol=SubProtocol.DEFAULT)
    assert script.synced("b0", protocol=SubProtocol.DEFAULT) == [
        StartTasks(tasks=tasks("b0"), epoch=script.state.epoch),
        published(script, "b0"),
    ]


def test_a_downgrade_to_eager_stops_everything_and_joins_again(script: Script) -> None:
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3, protocol=SubProtocol.DEFAULT)
    assert script.synced("b0", protocol=SubProtocol.DEFAULT) == [
        StopTasks(tasks=tasks("a0 a1"), reason=StopReason.EAGER),
        published(script, "a0 a1", revoking="a0 a1"),
    ], "others may still run what this eager leader deals out"
    join = only_join(script.feed(TasksStopped, tasks=tasks("a0 a1")))
    assert told(join)[-1].assignment is None


# ---- heartbeats


def test_heartbeats_are_fast_after_a_round_and_grow_to_the_interval(script: Script) -> None:
    script.stable("a0")
    began = script.now
    times: list[int] = []
    while script.now < began + 30_000:
        times += [at for at, command in script.alarms(until=script.now + 10) if isinstance(command, SendHeartbeat)]
        script.heartbeat()
    steps = [after - before for before, after in pairwise([began, *times])]
    assert steps[0] == SETTINGS.fast_heartbeat_ms
    assert steps == sorted(steps)
    assert steps[-3:] == [SETTINGS.heartbeat_interval_ms] * 3
    assert max(after / before for before, after in pairwise(steps[1:])) < 1.6


# ---- who asks for a rebalance


def test_a_leader_that_has_reason_to_joins_again(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3, leader=ME)
    script.feed(AssignmentComputed, assignments={}, record=None)
    script.synced()
    assert only_join(script.feed(RebalanceWanted, reason="new work")).reason == "new work"


def test_a_follower_leaves_that_to_the_leader(script: Script) -> None:
    assert script.stable("a0").feed(RebalanceWanted, reason="new work") == []


def test_a_finished_task_is_not_owned_any_more_and_no_reason_to_join(script: Script) -> None:
    script.stable("a0 a1")
    assert script.feed(TasksFinished, tasks=tasks("a0")) == []
    assert script.state.owned == tasks("a1")


# ---- leaving


def test_leaving_waits_until_everything_has_stopped(script: Script) -> None:
    script.stable("a0 a1")
    assert script.feed(LeaveRequested, reason="drained") == [StopTasks(tasks=tasks("a0 a1"), reason=StopReason.LEAVING)]
    assert script.feed(TasksStopped, tasks=tasks("a0")) == []
    (leave,) = script.feed(TasksStopped, tasks=tasks("a1"))
    assert isinstance(leave, SendLeave)
    assert leave == SendLeave(seq=leave.seq, node=NODE, member_id=ME, reason="drained")
    assert script.feed(Left) == []
    assert script.state.phase is Phase.LEFT


def test_while_tasks_stop_the_leaving_member_keeps_its_lease(script: Script) -> None:
    script.stable("a0")
    script.feed(LeaveRequested, reason="drained")
    sent = [command for _, command in script.alarms(until=script.now + 10_000)]
    assert any(isinstance(command, SendHeartbeat) for command in sent)
    assert script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS) == [], "it joins no rebalance any more"


def test_who_owns_nothing_leaves_at_once(script: Script) -> None:
    (leave,) = script.stable("").feed(LeaveRequested, reason="drained")
    assert isinstance(leave, SendLeave)


def test_leaving_a_coordinator_that_is_away_takes_no_longer_than_a_session(script: Script) -> None:
    script.stable("")
    script.feed(LeaveRequested, reason="drained")
    began = script.now
    while script.state.phase is Phase.LEAVING:
        if script.state.awaiting is not None:
            script.feed(RequestFailed, request=Request.LEAVE, cause="timeout")
        script.alarms(until=script.now + 100)
        assert script.now <= began + SESSION_MS + 100
    assert script.state.phase is Phase.LEFT


@pytest.mark.parametrize("error", [KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_INSTANCE_ID])
def test_who_is_not_in_the_group_any_more_has_left(script: Script, error: KafkaErrorCode) -> None:
    script.stable("")
    script.feed(LeaveRequested, reason="drained")
    assert script.rejected(Request.LEAVE, error) == []
    assert script.state.phase is Phase.LEFT
