"""What a member does when the coordinator refuses, moves, is away, or answers too late."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from group_records import record_of
from member_script import LEASE_MS, MARGIN_MS, ME, NODE, OTHER, SESSION_MS, SETTINGS, Script, only_join, tasks, told

from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    CoordinatorFound,
    FindCoordinator,
    HeartbeatAnswered,
    Joined,
    Left,
    RecordRead,
    Request,
    RequestFailed,
    SendHeartbeat,
    SendJoin,
    Synced,
    UrlChanged,
)
from airflow_provider.group.classic.member.member import handle
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import Command, Fail, StopTasks, TasksStopped, TimerFired, Warn
from airflow_provider.spark.job import FencedError
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import UNKNOWN_MEMBER_ID, Epoch, GenerationId, MemberId, SubProtocol, WorkerId
from airflow_provider.worker.lease import WorkerLease


@pytest.fixture
def script() -> Script:
    return Script()


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


def test_fenced_by_a_coordinator_that_moved_before_the_first_round_it_takes_its_name_again(script: Script) -> None:
    """The coordinator keeps a member only when a round is completed. So another broker may know the process before."""
    script.joining()
    script.joined(1)
    script.rejected(Request.SYNC, KafkaErrorCode.NOT_COORDINATOR)
    script.alarms(until=script.now + SETTINGS.retry_backoff_max_ms)
    join = only_join(script.feed(CoordinatorFound, node=NODE + 1))
    assert join.member_id == ME
    join = only_join(script.rejected(Request.JOIN, KafkaErrorCode.FENCED_INSTANCE_ID))
    assert join.member_id == UNKNOWN_MEMBER_ID
    assert script.state.predecessor is Predecessor.UNKNOWN, "what the coordinator knows may still run tasks"
    script.joined(2)
    assert script.state.hold_until == script.now + SETTINGS.session_timeout_ms


def test_once_it_has_completed_a_round_it_is_not_forgotten_so_fenced_means_fenced(script: Script) -> None:
    script.stable("a0")
    script.rejected(Request.FIND_COORDINATOR, KafkaErrorCode.NOT_COORDINATOR)
    script.heartbeat(KafkaErrorCode.NOT_COORDINATOR)
    script.alarms(until=script.now + SETTINGS.retry_backoff_max_ms)
    script.feed(CoordinatorFound, node=NODE + 1)
    script.heartbeat(KafkaErrorCode.FENCED_INSTANCE_ID)
    assert script.state.phase is Phase.FENCED


def test_its_epoch_never_goes_back_whatever_records_were_lost(script: Script) -> None:
    """The coordinator counts anew, and no record says from where."""
    script.stable("a0")
    epoch = script.state.epoch
    script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID)
    script.feed(TasksStopped, tasks=tasks("a0"))
    newcomer = MemberId("newcomer")
    script.joined(1, leader=newcomer)
    script.synced()
    script.alarms(until=script.now + SETTINGS.session_timeout_ms // 2)
    script.joined(2, leader=newcomer)
    script.synced("a0")
    assert script.state.epoch == epoch + 1
    lower = replace(record_of({}), epoch=Epoch(1), generation=GenerationId(2), leader_member=newcomer)
    script.feed(RecordRead, record=lower)
    assert script.state.epoch == epoch + 1, "its leader hears of that, and has the group rebalance"


@pytest.mark.parametrize(("leads", "kept"), [(ME, True), (OTHER, False)], ids=["its own", "another's"])
def test_a_leader_goes_on_with_the_record_that_it_has_made(script: Script, leads: MemberId, kept: bool) -> None:
    """Not with the copy that it reads in the topic: to compare it with what members own then takes no time."""
    script.joining()
    script.joined(4, leader=leads)
    made = record_of({SETTINGS.worker: tasks("a0")}, epoch=4, generation=GenerationId(4), leader_member=leads)
    if leads == ME:
        script.feed(AssignmentComputed, assignments={ME: b"mine"}, record=made)
        script.synced("a0")
    else:
        script.synced("a0")
        script.feed(RecordRead, record=made)
    copy = replace(made)
    script.feed(RecordRead, record=copy)
    assert (script.state.record is made) == kept
    assert (script.state.record is copy) != kept


@pytest.mark.parametrize("read", ["before it is expelled", "before it joins", "when it has joined"])
@pytest.mark.parametrize(("holder", "waits"), [("w-8", True), (ME, False)], ids=["another process", "itself"])
def test_whose_name_another_process_had_meanwhile_waits_until_that_one_has_stopped(
    script: Script, read: str, holder: MemberId, waits: bool
) -> None:
    """It was expelled, and slept before it heard so: by then another process had taken its name, and lost it now."""
    script.stable("a0")
    epoch = Epoch(script.state.epoch + 1)
    record = replace(
        record_of({SETTINGS.worker: tasks("a0")}, epoch=epoch),
        generation=GenerationId(3),
        leader_member=OTHER,
        members={SETTINGS.worker: holder},
    )
    if read == "before it is expelled":
        script.feed(RecordRead, record=record)
    script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID)
    script.feed(TasksStopped, tasks=tasks("a0"))
    if read == "before it joins":
        script.feed(RecordRead, record=record)
    script.feed(Joined, generation=GenerationId(3), protocol=SubProtocol.COMPATIBLE, leader=OTHER, member_id="w-9")
    joined_at = script.now
    script.synced()
    if read == "when it has joined":
        script.feed(RecordRead, record=record)
    assert script.state.owned == tasks("a0")
    assert script.state.running == (tasks("") if waits else tasks("a0"))
    for at in range(joined_at, joined_at + SESSION_MS, 1_000):
        script.alarms(until=at)
        script.heartbeat()
        assert script.state.running == (tasks("") if waits else tasks("a0"))
    script.alarms(until=joined_at + SESSION_MS)
    script.heartbeat()
    assert script.state.running == tasks("a0")


def test_that_holds_before_its_first_round_too(script: Script) -> None:
    script.joining()
    script.joined(2)
    script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID)
    record = replace(
        record_of({SETTINGS.worker: tasks("a0")}, epoch=Epoch(9)),
        generation=GenerationId(3),
        leader_member=OTHER,
        members={SETTINGS.worker: MemberId("w-8")},
    )
    script.feed(RecordRead, record=record)
    script.feed(Joined, generation=GenerationId(3), protocol=SubProtocol.COMPATIBLE, leader=OTHER, member_id="w-9")
    script.synced()
    assert script.state.held == tasks("a0")


def test_expelled_between_join_and_sync_with_nothing_to_stop_it_joins_anew_at_once(script: Script) -> None:
    script.joining()
    script.joined(1)
    join = only_join(script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID))
    assert join.member_id == ""


def test_expelled_it_may_write_no_more_even_if_all_it_had_was_told_to_stop_before(script: Script) -> None:
    """Nobody tells these tasks a second time; what ends their writing is the lease."""
    script.stable("a0")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a0")
    lease = WorkerLease(lambda: script.state.lease_until, lambda: script.now)
    lease.check(lease.grant)
    assert script.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID) == []
    with pytest.raises(FencedError):
        lease.check(lease.grant)


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


def test_who_is_overtaken_by_another_rebalance_joins_it_for_the_same_reason(script: Script) -> None:
    """Nothing has been done about it. In a round that only places waiting tasks, running ones are safe for its sake."""
    script.stable("a0")
    first = only_join(script.feed(UrlChanged, url="https://another"))
    script.joined(3)
    assert only_join(script.rejected(Request.SYNC, KafkaErrorCode.REBALANCE_IN_PROGRESS)).reason == first.reason


@pytest.mark.parametrize("lost", [False, True])
def test_who_misses_the_first_round_of_a_downgrade_stops_everything_before_it_joins_the_next(
    script: Script, lost: bool
) -> None:
    """That one deals everything out, and in the eager protocol nobody can say what still runs."""
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3, protocol=SubProtocol.DEFAULT)
    if lost:
        script.feed(RequestFailed, request=Request.SYNC, cause="connection reset")
        script.alarms(until=script.now + 200)
        commands = script.feed(CoordinatorFound, node=NODE)
    else:
        commands = script.rejected(Request.SYNC, KafkaErrorCode.REBALANCE_IN_PROGRESS)
    assert commands == [StopTasks(tasks=tasks("a0 a1"), reason=StopReason.EAGER)]
    assert script.feed(TasksStopped, tasks=tasks("a1")) == []
    only_join(script.feed(TasksStopped, tasks=tasks("a0")))


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
    assert isinstance(heartbeat, SendHeartbeat)
    asked = SendHeartbeat(seq=heartbeat.seq, node=NODE + 1, member_id=ME, generation=GenerationId(2))
    assert heartbeat == asked
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


@pytest.mark.parametrize("request_", [Request.JOIN, Request.SYNC])
def test_after_a_lost_join_or_sync_too_tasks_that_do_not_stop_do_not_keep_it_from_joining_in_time(
    script: Script, request_: Request
) -> None:
    script.stable("a0 a1")
    script.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
    script.joined(3)
    script.synced(revoked="a1")
    script.heartbeat()
    began = script.now
    _until_it_joins(script, KafkaErrorCode.REBALANCE_IN_PROGRESS)
    if request_ is Request.SYNC:
        script.joined(4)
        began = script.now
    script.feed(RequestFailed, request=request_, cause="connection reset")
    assert script.state.phase is Phase.UNJOINED
    others_wait = request_ is Request.JOIN  # who has joined is just expelled when its time is over
    join = _until_it_joins(script, KafkaErrorCode.REBALANCE_IN_PROGRESS if others_wait else KafkaErrorCode.NONE)
    assert script.now < began + SETTINGS.rebalance_lease_ms - MARGIN_MS, "before it has to stop everything"
    assert told(join)[1].owned == tasks("a0 a1")


def _until_it_joins(script: Script, heartbeats_say: KafkaErrorCode) -> SendJoin:
    """A task does not stop; heartbeats are answered, and so is the search for the coordinator."""
    while True:
        script.heartbeat(heartbeats_say)
        for _, command in script.alarms(until=script.now + 1_000):
            assert not isinstance(command, StopTasks)
            if isinstance(command, SendJoin):
                return command
            if isinstance(command, FindCoordinator):
                assert script.feed(CoordinatorFound, node=NODE) == [], "it waits for the task, at first"


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
    assert (script.state.phase, script.state.running) == (Phase.PREPARING_REBALANCE, tasks("a0"))
    script.feed(RequestFailed, seq=join.seq + 1, request=Request.HEARTBEAT, cause="timeout")
    assert (script.state.phase, script.state.running) == (Phase.UNJOINED, tasks("a0"))


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


def _stale_heartbeat(script: Script, error: KafkaErrorCode) -> tuple[MemberState, list[Command]]:
    stale, now = GenerationId(1), script.now
    event = HeartbeatAnswered(now_ms=now, sent_at_ms=now, member_id=ME, generation=stale, error=error)
    return handle(script.state, event)
