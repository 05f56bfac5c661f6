"""The table of transitions of a declarative member: complete, and nothing that isn't in it happens."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from declarative_script import ASSIGNORS, ME, SETTINGS, Script, answer, only_heartbeat, others, said, tasks
from msgspec import structs

from airflow_provider.group.declarative.member import events
from airflow_provider.group.declarative.member.answers import REACTIONS
from airflow_provider.group.declarative.member.events import HeartbeatAnswered, Request, Resumed, Started
from airflow_provider.group.declarative.member.member import TRANSITIONS, handle
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState, Phase, StateChanges
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentResponse,
)
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine import events as member_events
from airflow_provider.group.machine.events import Event, Fail, LeaveRequested, StopTasks, TasksStopped
from airflow_provider.group.machine.state import CommonState
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import LocalProtocolError, MemberId, WorkerId

EVENTS = sorted(
    (
        event
        for event in (vars(events) | vars(member_events)).values()
        if isinstance(event, type) and issubclass(event, Event) and event is not Event
    ),
    key=lambda event: event.__name__,
)


def test_every_event_has_its_place_in_every_phase() -> None:
    assert TRANSITIONS.keys() == set(Phase)
    beginnings = {Started, Resumed}
    for phase, rules in TRANSITIONS.items():
        expected = beginnings if phase is Phase.INITIAL else set(EVENTS) - beginnings
        assert set(rules) == expected, phase


def test_phases_lead_only_forward_to_their_ends() -> None:
    for phase, rules in TRANSITIONS.items():
        reachable = frozenset().union(*(rule.leads_to for rule in rules.values()))
        assert Phase.INITIAL not in reachable
        if phase.ended:
            assert reachable == {phase}
        if phase is Phase.LEAVING:
            assert reachable == {Phase.LEAVING, Phase.LEFT, Phase.FENCED, Phase.FAILED}


FIELDS: dict[type[Event], dict[str, Any]] = {
    HeartbeatAnswered: {"reply": answer(5), "sent_at_ms": 0},
    events.PrepareAnswered: {"reply": ConnectGroupPrepareAssignmentResponse(), "sent_at_ms": 0},
    events.InstallAnswered: {"reply": ConnectGroupInstallAssignmentResponse(), "sent_at_ms": 0},
}
DEFAULTS: dict[str, Any] = {
    "config_offset": 1,
    "request": Request.HEARTBEAT,
    "cause": "no reply",
    "group_epoch": GroupEpoch(7),
    "assignors": ASSIGNORS,
    "tasks": tasks("a0"),
    "reason": "a test",
    "seq": -1,
}


def make(event: type[Event], **fields: Any) -> Event:
    required = {
        field.name
        for field in dataclasses.fields(event)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    known = {name: value for name, value in DEFAULTS.items() if name in required}
    return event(**({"now_ms": 0} | known | FIELDS.get(event, {}) | fields))


def example(phase: Phase) -> MembershipState:
    script = Script()
    if phase is Phase.INITIAL:
        return script.state
    script.started()
    if phase is Phase.JOINING:
        return script.state
    script.answered(5, "a0")
    match phase:
        case Phase.FENCED:
            script.refused(KafkaErrorCode.FENCED_INSTANCE_ID)
        case Phase.FAILED:
            script.refused(KafkaErrorCode.GROUP_AUTHORIZATION_FAILED)
        case Phase.LEAVING | Phase.LEFT:
            script.feed(LeaveRequested, reason="drained")
            if phase is Phase.LEFT:
                script.feed(TasksStopped, tasks=tasks("a0"))
                script.answered(-1)
    return script.state


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", list(Phase))
def test_an_event_is_in_the_table_or_a_mistake_of_the_driver(phase: Phase, event: type[Event]) -> None:
    state = example(phase)
    assert state.phase is phase
    if event in TRANSITIONS[phase]:
        for seq in (-1, state.awaiting or -1):
            after, _ = handle(state, make(event, **({"seq": seq} if "seq" in event.__dataclass_fields__ else {})))
            after.validate()
            assert after.phase in TRANSITIONS[phase][event].leads_to
    else:
        with pytest.raises(LocalProtocolError, match=event.__name__):
            handle(state, make(event))


# ---- what a heartbeat is answered with

AGAIN = (
    KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaErrorCode.NOT_COORDINATOR,
    KafkaErrorCode.NETWORK_EXCEPTION,
    KafkaErrorCode.REQUEST_TIMED_OUT,
    KafkaErrorCode.UNKNOWN_SERVER_ERROR,
    KafkaErrorCode.UNRELEASED_INSTANCE_ID,
)
HOPELESS = {
    KafkaErrorCode.UNSUPPORTED_ASSIGNOR: "the same assignors",
    KafkaErrorCode.INVALID_REQUEST: "the same release",
    KafkaErrorCode.INVALID_GROUP_ID: "name of a group",
    KafkaErrorCode.UNSUPPORTED_VERSION: "switch them on there, or give all workers of the group",
    KafkaErrorCode.GROUP_AUTHORIZATION_FAILED: "needs the right READ",
    KafkaErrorCode.GROUP_MAX_SIZE_REACHED: "number of members",
}


@pytest.mark.parametrize("error", AGAIN)
@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.STABLE])
def test_a_coordinator_that_is_away_is_asked_again_with_everything(phase: Phase, error: KafkaErrorCode) -> None:
    script = Script(example(phase))
    script.alarm = script.state.armed_at
    assert script.refused(error) == []
    assert script.state.phase is phase
    assert script.alarm is not None
    ((_, sent),) = script.alarms(until=script.alarm)
    body = only_heartbeat([sent])
    assert (body.member_epoch, body.instance_id, body.rebalance_timeout_ms) == (script.state.epoch, "w", 60_000)
    assert (said(body), body.client_assignors) == (script.state.owned, ASSIGNORS)


@pytest.mark.parametrize("error", [KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_MEMBER_EPOCH])
def test_who_is_not_known_any_more_stops_everything_and_joins_as_the_same_member_that_owns_nothing(
    error: KafkaErrorCode,
) -> None:
    script = Script().stable("a0 a1")
    assert script.refused(error) == [StopTasks(tasks=tasks("a0 a1"), reason=StopReason.EXPELLED)]
    assert script.state.lease_until is None
    assert script.feed(TasksStopped, tasks=tasks("a0")) == []
    joins = only_heartbeat(script.feed(TasksStopped, tasks=tasks("a1")))
    assert (joins.member_id, joins.member_epoch, said(joins)) == (ME, 0, tasks(""))
    assert (joins.instance_id, joins.client_assignors) == ("w", ASSIGNORS)
    assert script.refused(error) == [], "and does not ask as fast as it is refused"
    assert script.state.heartbeat_at is not None


def test_who_has_nothing_joins_again_immediately() -> None:
    script = Script().stable("")
    assert only_heartbeat(script.refused(KafkaErrorCode.UNKNOWN_MEMBER_ID)).member_epoch == 0


@pytest.mark.parametrize("phase", [Phase.JOINING, Phase.STABLE])
@pytest.mark.parametrize(("error", "advice"), HOPELESS.items())
def test_what_trying_again_does_not_mend_ends_it_with_what_to_do(
    phase: Phase, error: KafkaErrorCode, advice: str
) -> None:
    script = Script(example(phase))
    *stops, fail = script.refused(error, "said the coordinator")
    assert isinstance(fail, Fail)
    assert all(text in fail.error for text in (error.name, "'w'", "'g'", "said the coordinator; ", advice))
    assert len(stops) == (phase is Phase.STABLE)
    assert script.state.phase is Phase.FAILED


def test_who_has_lost_its_name_is_fenced() -> None:
    script = Script().stable("a0")
    stop, fail = script.refused(KafkaErrorCode.FENCED_INSTANCE_ID)
    assert stop == StopTasks(tasks=tasks("a0"), reason=StopReason.FENCED)
    assert isinstance(fail, Fail)
    assert "another process joined group 'g' as 'w'" in fail.error
    assert script.state.phase is Phase.FENCED


@pytest.mark.parametrize("error", [error for error in KafkaErrorCode if error not in REACTIONS])
def test_an_error_that_the_table_does_not_know_ends_who_joins_and_nobody_else(error: KafkaErrorCode) -> None:
    script = Script()
    script.started()
    script.refused(error)
    assert script.state.phase is Phase.FAILED
    script = Script().stable("a0")
    assert others(script.refused(error)) == []
    assert script.state.phase is Phase.STABLE


# ---- the state

STATE = Script().stable("a0").state
TASK = tasks("b0")


def test_a_change_is_what_replace_makes_of_it() -> None:
    changes: StateChanges = {"owned": TASK, "heartbeat_at": 5, "phase": Phase.LEAVING}
    assert STATE.changed(changes) == MembershipState(**{**structs.asdict(STATE), **changes})


def test_mypy_knows_each_field_that_may_change() -> None:
    fields = {**CommonState.__annotations__, **MembershipState.__annotations__}
    known = {name: kind for name, kind in fields.items() if name != "settings"}
    assert {name: kind.__forward_arg__ for name, kind in StateChanges.__annotations__.items()} == known


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"held": TASK}, "held tasks are owned"),
        ({"stopping": TASK}, "stopping tasks are owned"),
        ({"member_id": MemberId("")}, "a member has a member id"),
        ({"phase": Phase.JOINING, "epoch": MemberEpoch(0)}, "a joining member stops all its tasks"),
        ({"phase": Phase.JOINING, "owned": tasks("")}, "a joining member has epoch 0"),
        ({"assigned": tasks("")}, "revoked tasks stop"),
        ({"phase": Phase.FAILED, "heartbeat_at": 3}, "an ended member needs no timer"),
        ({"awaiting": None, "heartbeat_at": None}, "a member of the group sends heartbeats"),
        ({"phase": Phase.LEAVING, "awaiting": None}, "a joining or leaving member waits for a reply, a time, or tasks"),
        ({"assigning_seq": 3}, "an awaited request or computation has a number"),
    ],
)
def test_a_state_in_which_something_cannot_be_is_refused_by_the_rules_name(changes: dict[str, Any], rule: str) -> None:
    STATE.validate()
    with pytest.raises(LocalProtocolError, match=rule):
        structs.replace(STATE, **changes).validate()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"worker": WorkerId("")}, "worker is empty"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms=0 must be positive"),
        ({"rebalance_timeout_ms": 0}, "rebalance_timeout_ms=0 must be positive"),
        ({"lease_margin_ms": 9_900}, "lease_margin_ms=9900 must be less than session_timeout_ms=10000"),
    ],
)
def test_settings_with_which_no_member_can_keep_its_promises_are_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        dataclasses.replace(SETTINGS, **changes)
    assert DeclarativeSettings(group_id="g", worker=WorkerId("w")) == SETTINGS
