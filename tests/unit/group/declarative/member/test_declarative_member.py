"""A member of a declarative group: how it joins, moves towards its target, and leaves, command by command."""

from __future__ import annotations

import dataclasses

import pytest
from declarative_script import (
    ASSIGNORS,
    INTERVAL_MS,
    LEASE_MS,
    MARGIN_MS,
    ME,
    SESSION_MS,
    Script,
    answer,
    heartbeats,
    only_heartbeat,
    others,
    said,
    tasks,
)

from airflow_provider.group.declarative.member.events import (
    AssignorsChanged,
    HeartbeatAnswered,
    OnAssignment,
    SendRequest,
    TasksDue,
)
from airflow_provider.group.declarative.member.state import MembershipState, Phase
from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    HeartbeatAssignment,
)
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import (
    ConfigAdvanced,
    LeaveRequested,
    PublishAssignment,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TimerFired,
    Warn,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, Epoch

ONE = AssignmentEpoch(1)
EVERYTHING = ConnectGroupHeartbeatRequest(
    group_id="g",
    member_id=ME,
    member_epoch=MemberEpoch(0),
    instance_id="w",
    rebalance_timeout_ms=60_000,
    client_assignors=ASSIGNORS,
    connectors_and_tasks=(),
)
"""As it joins."""


def starts(names: str, epoch: int) -> StartTasks:
    return StartTasks(tasks=tasks(names), epoch=Epoch(epoch))


def unchanged(epoch: int) -> ConnectGroupHeartbeatRequest:
    return ConnectGroupHeartbeatRequest(group_id="g", member_id=ME, member_epoch=MemberEpoch(epoch))


# ---- joining, revoking, assigning


def test_it_joins_with_everything_and_then_says_what_has_changed() -> None:
    script = Script()
    assert only_heartbeat(script.started()) == EVERYTHING
    assert only_heartbeat(script.answered(0)) == unchanged(0)
    first = script.answered(1, "a0 a1", assignment_epoch=1)
    assert others(first) == [starts("a0 a1", 1)]
    assert [command for command in first if isinstance(command, PublishAssignment | OnAssignment)] == [
        OnAssignment(
            assignment=HeartbeatAssignment(connectors_and_tasks=units_of(tasks("a0 a1")), assignment_epoch=ONE)
        ),
        PublishAssignment(epoch=Epoch(1), owned=tasks("a0 a1"), revoking=tasks("")),
    ]
    assert only_heartbeat(first) == dataclasses.replace(unchanged(1), connectors_and_tasks=units_of(tasks("a0 a1")))
    assert script.answered(1) == []
    (again,) = script.alarms(until=INTERVAL_MS)
    assert only_heartbeat([again[1]]) == unchanged(1)


def test_what_is_revoked_stops_and_is_acknowledged_immediately() -> None:
    script = Script().stable("a0 a1 a2", epoch=5)
    revoked = script.at(10).answered(5, "a0")
    assert others(revoked) == [StopTasks(tasks=tasks("a1 a2"), reason=StopReason.REVOKED)]
    assert not heartbeats(revoked), "there is nothing to say before they have stopped"
    assert not heartbeats(script.at(20).feed(TasksStopped, tasks=tasks("a1")))
    acknowledged = only_heartbeat(script.at(30).feed(TasksStopped, tasks=tasks("a2")))
    assert (acknowledged.member_epoch, said(acknowledged)) == (5, tasks("a0"))
    assert others(script.answered(6, "a0 b0", assignment_epoch=6)) == [starts("b0", 6)]


def test_a_heartbeat_while_tasks_stop_says_what_still_runs_and_the_acknowledgment_does_not_wait_for_it() -> None:
    script = Script().stable("a0 a1", epoch=5)
    script.answered(5, "a0")
    ((at, sent),) = script.alarms(until=INTERVAL_MS)
    assert (at, said(only_heartbeat([sent]))) == (INTERVAL_MS, tasks("a0 a1"))
    held = script.state.awaiting
    assert said(only_heartbeat(script.feed(TasksStopped, tasks=tasks("a1")))) == tasks("a0")
    before = script.state
    assert script.feed(HeartbeatAnswered, seq=held, sent_at_ms=script.now, reply=answer(6, "a0 b0")) == []
    assert script.state == before, "it was given up"


def test_finished_tasks_are_not_started_again_by_an_answer_that_does_not_know_it() -> None:
    script = Script().stable("a0 a1", epoch=5)
    script.feed(TasksFinished, tasks=tasks("a1"))
    assert others(script.answered(6, "a0 a1")) == []
    assert script.state.owned == tasks("a0")
    assert said(only_heartbeat(script.answered(7, "a0"))) == tasks("a0")


def test_what_is_due_again_is_started_after_an_answer_that_leaves_it_here() -> None:
    """It has failed and is retried: the coordinator has seen neither, and assigns it to nobody."""
    script = Script().stable("a0 a1", epoch=5)
    script.feed(TasksFinished, tasks=tasks("a1"))
    assert script.feed(TasksDue, tasks=tasks("a1 b0")) == []
    script.alarms(until=INTERVAL_MS)
    assert starts("a1", 5) in script.answered(5)
    assert script.state.owned == tasks("a0 a1")


def test_what_is_due_again_elsewhere_is_not_started() -> None:
    script = Script().stable("a0 a1", epoch=5)
    script.feed(TasksFinished, tasks=tasks("a1"))
    script.feed(TasksDue, tasks=tasks("a1"))
    script.alarms(until=INTERVAL_MS)
    script.answered(5, "a0")
    assert script.state.owned == tasks("a0")
    assert not [one for one in script.answered(6) if isinstance(one, StartTasks)]


def test_a_revocation_of_what_has_finished_is_acknowledged_immediately() -> None:
    script = Script().stable("a0 a1", epoch=5)
    script.feed(TasksFinished, tasks=tasks("a1"))
    script.alarms(until=INTERVAL_MS)
    assert said(only_heartbeat(script.answered(5, "a0"))) == tasks("a0")


def test_a_coordinator_that_revokes_and_assigns_together_is_obeyed_one_after_the_other() -> None:
    script = Script().stable("a0 a1", epoch=5)
    assert others(script.answered(6, "a0 b0")) == [StopTasks(tasks=tasks("a1"), reason=StopReason.REVOKED)]
    stopped = script.feed(TasksStopped, tasks=tasks("a1"))
    assert others(stopped) == [starts("b0", 6)]
    assert said(only_heartbeat(stopped)) == tasks("a0 b0")


def test_what_is_written_of_tasks_is_of_the_targets_epoch_even_while_the_members_is_older() -> None:
    script = Script().stable("", epoch=4)
    assert others(script.answered(4, "a0", assignment_epoch=9)) == [starts("a0", 9)]
    assert (script.state.epoch, script.state.assignment_epoch) == (4, 9)


def test_what_stops_by_itself_is_its_own_still_and_is_tried_again_after_the_next_answer() -> None:
    script = Script().stable("a0 a1")
    assert script.feed(TasksStopped, tasks=tasks("a1")) == []
    assert script.state.owned == tasks("a0")
    assert others(script.answered(5)) == [starts("a1", 5)]
    script.feed(TasksStopped, tasks=tasks("a1"))
    ((_, sent),) = script.alarms(until=INTERVAL_MS)
    assert said(only_heartbeat([sent])) == tasks("a0")
    assert others(script.answered(6, "a0", assignment_epoch=6)) == [], "others have it by now"


def test_what_has_finished_is_not_tried_again() -> None:
    script = Script().stable("a0 a1")
    script.feed(TasksFinished, tasks=tasks("a1"))
    assert others(script.answered(5)) == []


def test_the_same_assignment_again_changes_nothing() -> None:
    script = Script().stable("a0", epoch=4)
    script.answered(4, "a0 a1", assignment_epoch=6)
    again = script.answered(4, "a0 a1", assignment_epoch=6)
    assert (others(again), heartbeats(again)) == ([], [])


def test_the_coordinator_gets_a_heartbeat_to_hold_by_who_waits_for_all_of_a_new_target() -> None:
    script = Script().stable("", epoch=4)
    assert len(heartbeats(script.answered(4, "", assignment_epoch=5))) == 1


def test_tasks_wait_for_the_jobs_topic() -> None:
    script = Script()
    script.started()
    assert others(script.answered(1, "a0", needed_offset=7)) == []
    assert others(script.feed(ConfigAdvanced, config_offset=ConfigOffset(6))) == []
    assert others(script.feed(ConfigAdvanced, config_offset=ConfigOffset(7))) == [starts("a0", 1)]


def test_an_assignors_error_is_told_and_what_it_has_goes_on() -> None:
    script = Script().stable("a0")
    (warning,) = others(script.answered(6, "a0", assignor_error=3))
    assert isinstance(warning, Warn)
    assert "its error 3" in warning.message
    assert script.state.running == tasks("a0")


# ---- the lease


def test_the_lease_is_counted_from_the_sending_of_what_was_answered() -> None:
    script = Script().stable("a0")
    script.at(2_000).answered(5, sent_at_ms=0)
    assert script.state.lease_until == LEASE_MS
    script.alarms(until=3_000)
    script.at(5_900).answered(5)
    assert script.state.lease_until == 3_000 + LEASE_MS


def test_a_late_answer_does_not_shorten_the_lease() -> None:
    script = Script().stable("a0")
    script.at(3_000).answered(5, sent_at_ms=2_000)
    script.alarms(until=6_000)
    script.answered(5, sent_at_ms=1_000)
    assert script.state.lease_until == 2_000 + LEASE_MS


def back(script: Script) -> Script:
    """Another heartbeat has been sent, and will be answered."""
    script.failed()
    assert script.alarm is not None
    script.alarms(until=script.alarm)
    return script


def test_everything_stops_before_the_lease_is_over_and_goes_on_when_an_answer_comes_after_all() -> None:
    script = Script().stable("a0 a1")
    script.failed()
    seen = script.alarms(until=SESSION_MS)
    assert (LEASE_MS - MARGIN_MS, StopTasks(tasks=tasks("a0 a1"), reason=StopReason.LEASE_OVER)) in seen
    script.feed(TasksStopped, tasks=tasks("a0 a1"))
    assert (script.state.owned, script.state.running) == (tasks("a0 a1"), tasks(""))
    assert others(back(script).answered(5)) == [starts("a0 a1", 5)]


def test_what_the_lease_has_stopped_is_released_if_it_is_revoked_then() -> None:
    script = Script().stable("a0 a1")
    script.failed()
    script.alarms(until=SESSION_MS)
    back(script).answered(5, "a0")
    script.feed(TasksStopped, tasks=tasks("a0 a1"))
    assert (script.state.owned, script.state.running) == (tasks("a0"), tasks("a0"))


def test_nothing_starts_without_a_session() -> None:
    script = Script()
    script.started()
    assert others(script.answered(1, "a0", session_ms=-1)) == []


# ---- no answer


def test_without_an_answer_it_says_everything_again_after_a_while() -> None:
    script = Script().stable("a0")
    assert script.failed() == []
    ((at, sent),) = script.alarms(until=200)
    assert 80 <= at <= 120
    assert only_heartbeat([sent]) == dataclasses.replace(
        EVERYTHING, member_epoch=MemberEpoch(5), connectors_and_tasks=units_of(tasks("a0"))
    )


def test_it_waits_longer_from_try_to_try_but_not_much() -> None:
    script = Script().stable("a0")
    waits = []
    for _ in range(8):
        script.failed()
        assert script.alarm is not None
        waits.append(script.alarm - script.now)
        script.alarms(until=script.alarm)
    assert waits[:3] == sorted(waits[:3])
    assert max(waits) <= 1_200
    script.answered(5)
    script.alarms(until=script.alarm or 0)
    script.failed()
    assert script.alarm is not None
    assert script.alarm - script.now <= 120, "an answer ends that"


def test_a_held_heartbeat_that_was_lost_with_its_coordinator_is_asked_again_soon_and_then_less_often() -> None:
    script = Script().stable("a0")
    script.alarms(until=INTERVAL_MS)
    script.answered(5, session_ms=60_000)
    waits = []
    for _ in range(4):
        (sent,) = [each for _, each in script.alarms(until=script.alarm or 0) if isinstance(each, SendRequest)]
        waits.append(sent.timeout_ms)
        script.at(script.now + sent.timeout_ms).failed()
    assert waits == [INTERVAL_MS + wait for wait in (2 * INTERVAL_MS, 4 * INTERVAL_MS, 8 * INTERVAL_MS, 26_000)]


def test_a_doubled_answer_does_nothing() -> None:
    script = Script().stable("a0")
    seq, sent_at = script.state.awaiting, script.sent_at
    script.answered(6, "a0 a1")
    before = script.state
    assert script.feed(HeartbeatAnswered, seq=seq, sent_at_ms=sent_at, reply=answer(6, "a0")) == []
    assert script.state == before


# ---- a predecessor


def test_what_a_predecessor_may_run_starts_when_its_lease_must_be_over_and_nothing_is_said_of_it_before() -> None:
    script = Script()
    script.started(Predecessor.UNKNOWN)
    joined = script.at(100).answered(5, "a0 a1", assignment_epoch=5)
    assert others(joined) == []
    assert said(only_heartbeat(joined)) is None
    script.answered(5, "a0")
    assert script.state.owned == tasks("a0 a1"), "what is revoked may run there still"
    for at in (3_100, 6_100, 9_100):
        assert all(said(one) is None for _, command in script.alarms(until=at) for one in heartbeats([command]))
        script.answered(5)
    over = [command for _, command in script.alarms(until=100 + SESSION_MS)]
    assert others(over) == [starts("a0", 5)]
    assert said(only_heartbeat(over)) == tasks("a0")


def test_asked_to_leave_before_it_has_joined_it_leaves_the_name_to_its_predecessor() -> None:
    script = Script()
    script.started(Predecessor.UNKNOWN)
    assert script.feed(LeaveRequested, reason="enough") == []
    assert script.state.phase is Phase.LEFT


# ---- leaving


def test_it_leaves_when_everything_has_stopped_and_heartbeats_until_then() -> None:
    script = Script().stable("a0 a1")
    script.answered(5)
    assert others(script.feed(LeaveRequested, reason="enough")) == [
        StopTasks(tasks=tasks("a0 a1"), reason=StopReason.LEAVING)
    ]
    ((_, sent),) = script.alarms(until=INTERVAL_MS)
    assert only_heartbeat([sent]).member_epoch == 5
    assert others(script.answered(6, "a0 a1 b0")) == [], "whatever it shall have"
    script.feed(TasksStopped, tasks=tasks("a0"))
    goodbye = script.feed(TasksFinished, tasks=tasks("a1"))
    assert only_heartbeat(goodbye) == dataclasses.replace(unchanged(-1), instance_id="w")
    assert script.answered(-1) == []
    assert script.state.phase is Phase.LEFT


@pytest.mark.parametrize("error", [KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_MEMBER_EPOCH])
def test_a_coordinator_that_does_not_know_it_lets_it_go(error: KafkaErrorCode) -> None:
    script = Script().stable("")
    script.feed(LeaveRequested, reason="enough")
    script.refused(error)
    assert script.state.phase is Phase.LEFT


def test_it_does_not_wait_for_ever_for_leave() -> None:
    script = Script().stable("")
    script.feed(LeaveRequested, reason="enough")
    while script.state.phase is not Phase.LEFT:
        script.failed()
        assert script.alarm is not None
        script.alarms(until=script.alarm)
    assert SESSION_MS <= script.now <= SESSION_MS + 1_500


def test_what_its_assignors_have_not_said_goes_with_its_goodbye() -> None:
    script = Script().stable("a0")
    leaving = tuple(dataclasses.replace(one, metadata=b"leaving") for one in ASSIGNORS)
    script.feed(LeaveRequested, reason="enough")
    script.feed(AssignorsChanged, assignors=leaving)
    goodbye = only_heartbeat(script.feed(TasksStopped, tasks=tasks("a0")))
    assert (goodbye.member_epoch, goodbye.client_assignors) == (-1, leaving)


def test_timers_that_fire_early_do_nothing() -> None:
    script = Script().stable("a0")
    assert script.at(1).feed(TimerFired) == []


def test_the_state_before_stays_as_it_was() -> None:
    script = Script().stable("a0")
    before = script.state
    copy = MembershipState(**{name: getattr(before, name) for name in MembershipState.__struct_fields__})
    script.answered(6, "b0")
    assert before == copy
