"""What a member does, event by event: the exact commands that come out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from member_script import ME, NODE, OTHER, SETTINGS, Script, tasks

from airflow_provider.membership.embedded import decode_metadata
from airflow_provider.membership.errors import KafkaErrorCode
from airflow_provider.membership.events import (
    AssignmentComputed,
    ConfigAdvanced,
    CoordinatorFound,
    Fail,
    FindCoordinator,
    HeartbeatAnswered,
    LeaveRequested,
    Left,
    PerformAssignment,
    Predecessor,
    PublishAssignment,
    RebalanceWanted,
    Request,
    RequestFailed,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    StartTasks,
    StopReason,
    StopTasks,
    Synced,
    TasksFinished,
    TasksStopped,
    TimerFired,
    Warn,
)
from airflow_provider.membership.member import handle
from airflow_provider.membership.model import ConfigOffset, SubProtocol, WorkerId, WorkerState
from airflow_provider.membership.state import Phase

SESSION_MS = SETTINGS.session_timeout_ms
LEASE_MS = SETTINGS.session_lease_ms
MARGIN_MS = SETTINGS.lease_margin_ms
CONFIG_MISMATCH = 1


@pytest.fixture
def script() -> Script:
    return Script()


def published(script: Script, owned: str, revoking: str = "") -> PublishAssignment:
    state = script.state
    return PublishAssignment(
        epoch=state.epoch,
        generation=state.generation,
        worker=SETTINGS.worker,
        owned=tasks(owned),
        revoking=tasks(revoking),
    )


def told(join: SendJoin) -> list[WorkerState]:
    return [decode_metadata(metadata) for _, metadata in join.protocols]


def only_join(commands: list[object]) -> SendJoin:
    (join,) = commands
    assert isinstance(join, SendJoin)
    return join


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
    assert sync == SendSync(
        seq=sync.seq, node=NODE, member_id=ME, generation=4, protocol=SubProtocol.COMPATIBLE, assignments={}
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
    """It runs nowhere; all it means is: join again at once, and be given it in the next round."""
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


# ---- what is not started at once


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
    """The coordinator has not noticed. With unchanged metadata it answers with the last round: the tasks go on here."""
    script.stable("a0")
    script.alarms(until=script.now + SESSION_MS)
    only_join(script.feed(TasksStopped, tasks=tasks("a0")))
    script.joined(2)
    assert script.synced("a0") == [
        StartTasks(tasks=tasks("a0"), epoch=script.state.epoch),
        published(script, "a0"),
    ]


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


def test_tasks_that_stop_while_the_group_rebalances_make_for_another_rebalance(script: Script) -> None:
    """The leader was told of them; without another round they would run nowhere."""
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


# ---- what the coordinator may say


def test_expelled_it_stops_everything_and_joins_anew(script: Script) -> None:
    script.stable("a0 a1")
    assert script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID) == [
        StopTasks(tasks=tasks("a0 a1"), reason=StopReason.EXPELLED)
    ]
    assert script.state.phase is Phase.UNJOINED
    join = only_join(script.feed(TasksStopped, tasks=tasks("a0 a1")))
    assert join.member_id == ""
    assert told(join)[1].assignment is None


def test_expelled_between_join_and_sync_with_nothing_to_stop_it_joins_anew_at_once(script: Script) -> None:
    script.joining()
    script.joined(1)
    join = only_join(script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID))
    assert join.member_id == ""


def test_fenced_it_stops_everything_and_ends(script: Script) -> None:
    script.stable("a0")
    stop, fail = script.heartbeat(KafkaErrorCode.FENCED_INSTANCE_ID)
    assert stop == StopTasks(tasks=tasks("a0"), reason=StopReason.FENCED)
    assert isinstance(fail, Fail)
    assert "'w'" in fail.error
    assert script.state.phase is Phase.FENCED
    assert script.feed(TasksStopped, tasks=tasks("a0")) == []
    assert script.feed(TimerFired) == []


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (KafkaErrorCode.GROUP_AUTHORIZATION_FAILED, "right READ on the group"),
        (KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL, "connect.protocol"),
        (KafkaErrorCode.INVALID_SESSION_TIMEOUT, "group.max.session.timeout.ms"),
        (KafkaErrorCode.GROUP_MAX_SIZE_REACHED, "group.max.size"),
        (KafkaErrorCode.UNRELEASED_INSTANCE_ID, "broker's log"),
    ],
)
def test_what_trying_again_does_not_mend_ends_the_membership_with_a_hint(
    script: Script, error: KafkaErrorCode, hint: str
) -> None:
    script.joining()
    (fail,) = script.rejected(Request.JOIN, error)
    assert isinstance(fail, Fail)
    assert error.name in fail.error
    assert hint in fail.error
    assert script.state.phase is Phase.FAILED


def test_a_right_that_is_taken_away_later_is_seen_by_heartbeat(script: Script) -> None:
    script.stable("a0")
    stop, fail = script.heartbeat(KafkaErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert stop == StopTasks(tasks=tasks("a0"), reason=StopReason.FAILED)
    assert isinstance(fail, Fail)


def test_another_rebalance_before_the_sync_is_joined_at_once(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    join = only_join(script.rejected(Request.SYNC, KafkaErrorCode.REBALANCE_IN_PROGRESS))
    assert told(join)[1].owned == tasks("a0")


def test_bytes_that_are_no_assignment_are_told_and_tried_again_ever_more_slowly(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    waits = []
    for _ in range(4):
        script.joined(3)
        (warn,) = script.feed(Synced, assignment=b"\x00")
        assert isinstance(warn, Warn)
        assert script.state.retry_at is not None
        waits.append(script.state.retry_at - script.now)
        script.alarms(until=script.state.retry_at)
        script.feed(CoordinatorFound, node=NODE)
    assert waits == sorted(set(waits))
    assert script.state.running == tasks("a0")


# ---- the coordinator is away


def test_a_lost_coordinator_is_looked_for_with_growing_waits(script: Script) -> None:
    script.stable("a0")
    lost_at = script.now
    assert script.feed(RequestFailed, seq=99, request=Request.HEARTBEAT, cause="connection reset") == []
    tries: list[int] = []
    while len(tries) < 12:
        tries += [at for at, command in script.alarms(until=script.now + 10) if isinstance(command, FindCoordinator)]
        if script.state.awaiting is not None:
            script.feed(RequestFailed, request=Request.FIND_COORDINATOR, cause="no broker")
    waits = [after - before for before, after in pairwise([lost_at, *tries])]
    longest = SETTINGS.retry_backoff_max_ms
    assert waits[0] <= SETTINGS.retry_backoff_ms * 1.2
    assert all(after > before for before, after in pairwise(waits[:5]))
    assert all(longest * 0.8 <= wait <= longest * 1.2 + 20 for wait in waits[-4:])


def test_found_again_the_member_just_goes_on(script: Script) -> None:
    script.stable("a0")
    script.feed(RequestFailed, seq=99, request=Request.HEARTBEAT, cause="connection reset")
    script.alarms(until=script.now + 200)
    (heartbeat,) = script.feed(CoordinatorFound, node=NODE + 1)
    assert heartbeat == SendHeartbeat(seq=heartbeat.seq, node=NODE + 1, member_id=ME, generation=2)
    assert script.heartbeat() == []
    assert script.state.attempts == 0


def test_two_workers_do_not_try_in_step() -> None:
    waits = set()
    for name in ("w1", "w2", "w3", "w4"):
        script = Script(replace(SETTINGS, worker=WorkerId(name))).started()
        script.feed(RequestFailed, request=Request.FIND_COORDINATOR, cause="no broker")
        waits.add(script.state.retry_at)
    assert len(waits) > 1


@pytest.mark.parametrize("request_", [Request.JOIN, Request.SYNC])
def test_a_join_or_sync_without_an_answer_is_begun_again_with_everything_running(
    script: Script, request_: Request
) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    if request_ is Request.SYNC:
        script.joined(3)
    assert script.feed(RequestFailed, request=request_, cause="timeout") == []
    assert script.state.phase is Phase.UNJOINED
    assert script.state.running == tasks("a0")
    assert [type(command) for _, command in script.alarms(until=script.now + 49)] == []
    found = [command for _, command in script.alarms(until=script.now + 200) if isinstance(command, FindCoordinator)]
    assert len(found) == 1
    join = only_join(script.feed(CoordinatorFound, node=NODE))
    assert told(join)[1].owned == tasks("a0")


def test_a_sync_that_is_not_answered_in_a_session_is_begun_again(script: Script) -> None:
    """Lost without a trace; the coordinator expels who does not ask for its assignment, heartbeats or not."""
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    began = script.now
    while script.state.phase is Phase.COMPLETING_REBALANCE:
        assert script.now <= began + SESSION_MS
        script.alarms(until=script.now + 1_000)
        script.heartbeat()
    assert script.state.phase is Phase.UNJOINED
    assert script.state.running == tasks("a0")


def test_the_lease_ends_too_when_the_coordinator_stops_waiting_for_the_sync(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    joined_at = script.now
    script.joined(3)
    script.at(joined_at + SETTINGS.rebalance_timeout_ms - 3_000).heartbeat()
    assert script.state.lease_until == joined_at + SETTINGS.rebalance_lease_ms
    script.synced()
    script.heartbeat()
    assert script.state.lease_until == script.now + LEASE_MS


def test_joining_the_same_generation_again_moves_no_deadline(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    deadline = script.state.rebalance_deadline
    script.feed(RequestFailed, request=Request.SYNC, cause="connection reset")
    script.alarms(until=script.now + 5_000)
    script.feed(CoordinatorFound, node=NODE)
    script.joined(3)
    assert script.state.rebalance_deadline == deadline


@pytest.mark.parametrize("error", [KafkaErrorCode.NOT_COORDINATOR, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE])
@pytest.mark.parametrize("joined", [False, True])
def test_a_heartbeat_tells_that_the_rebalance_has_lost_its_coordinator(
    script: Script, error: KafkaErrorCode, joined: bool
) -> None:
    """The JoinGroup that waits at the old one will get no answer."""
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    if joined:
        script.joined(3)
    assert script.heartbeat(error) == []
    found = [command for _, command in script.alarms(until=script.now + 200) if isinstance(command, FindCoordinator)]
    assert len(found) == 1
    only_join(script.feed(CoordinatorFound, node=NODE + 1))


def test_a_heartbeat_lost_after_a_join_makes_for_another_join_one_lost_before_it_does_not(script: Script) -> None:
    script.stable("a0")
    join = only_join(script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS))
    script.feed(RequestFailed, seq=join.seq - 1, request=Request.HEARTBEAT, cause="timeout")
    assert script.state.phase is Phase.PREPARING_REBALANCE
    script.feed(RequestFailed, seq=join.seq + 1, request=Request.HEARTBEAT, cause="timeout")
    assert script.state.phase is Phase.UNJOINED
    assert script.state.running == tasks("a0")


def test_a_coordinator_that_answers_with_errors_only_is_not_asked_without_pause(script: Script) -> None:
    script.stable("a0")
    for _ in range(5):
        assert script.heartbeat(KafkaErrorCode.NOT_COORDINATOR) == []
        assert script.state.retry_at is not None
        assert script.state.retry_at >= script.now + SETTINGS.retry_backoff_ms * 0.8
        script.alarms(until=script.state.retry_at)
        script.feed(CoordinatorFound, node=NODE)


def test_the_first_join_without_an_answer_makes_an_earlier_process_of_this_name_possible(script: Script) -> None:
    script.joining()
    script.feed(RequestFailed, request=Request.JOIN, cause="timeout")
    assert script.state.predecessor is Predecessor.UNKNOWN


# ---- late answers


def test_answers_to_older_requests_change_nothing(script: Script) -> None:
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    before = script.state
    old = (before.awaiting or 0) - 1
    assert script.feed(CoordinatorFound, seq=old, node=99) == []
    assert script.feed(Synced, seq=old, assignment=b"") == []
    assert script.feed(RequestFailed, seq=old, request=Request.JOIN, cause="timeout") == []
    assert script.feed(Left, seq=old) == []
    for error in KafkaErrorCode:
        assert script.rejected(Request.JOIN, error, seq=old) == []
    assert script.state == before


def test_heartbeats_of_another_generation_say_nothing_about_this_one(script: Script) -> None:
    script.stable("a0")
    before = script.state
    for error in KafkaErrorCode:
        script.state, commands = _stale_heartbeat(script, error)
        assert commands == []
        assert script.state == before


def _stale_heartbeat(script: Script, error: KafkaErrorCode) -> tuple[object, list[object]]:
    event = HeartbeatAnswered(now_ms=script.now, sent_at_ms=script.now, member_id=ME, generation=1, error=error)
    return handle(script.state, event)


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
