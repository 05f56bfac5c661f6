"""The table of transitions: complete, and nothing that isn't in it happens."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest
from member_script import ME, NODE, OTHER, SETTINGS, Script, tasks
from simulation.world import World

from airflow_provider.group.classic.member import events
from airflow_provider.group.classic.member.events import HeartbeatAnswered, Request, RequestRejected, Resumed, Started
from airflow_provider.group.classic.member.member import TRANSITIONS, handle
from airflow_provider.group.classic.member.reactions import OTHERWISE, REACTIONS
from airflow_provider.group.classic.member.saved import resume, save
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.classic.wire import v3
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment
from airflow_provider.group.classic.wire.v1 import encode_assignment
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine import events as member_events
from airflow_provider.group.machine.events import ArmTimer, Event, LeaveRequested, StartTasks, TasksStopped
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import (
    Assignment,
    ConfigOffset,
    Epoch,
    LocalProtocolError,
    SubProtocol,
    TaskId,
    Tasks,
    planner_of,
)
from airflow_provider.values.packed_tasks import PackedTasks

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


def some_record() -> ClassicRecord:
    world = World(1)
    world.configure([planner_of("a"), TaskId("a", 0)])
    world.start("w")
    world.run(1_000)
    assert world.record is not None
    return world.record


RECORD = some_record()
FIELDS: dict[str, Any] = {
    "config_offset": 1,
    "node": NODE,
    "request": Request.HEARTBEAT,
    "cause": "timeout",
    "error": KafkaErrorCode.NONE,
    "generation": 1,
    "protocol": SubProtocol.COMPATIBLE,
    "leader": OTHER,
    "member_id": ME,
    "assignments": {},
    "record": RECORD,
    "assignment": encode_assignment(Assignment(version=1, leader=OTHER)),
    "sent_at_ms": 0,
    "tasks": tasks("a0"),
    "progress": {TaskId("a", 0): 1.0},
    "reason": "a test",
    "url": "elsewhere",
    "seq": -1,
}


def make(event: type[Event], **fields: Any) -> Event:
    required = {
        field.name
        for field in dataclasses.fields(event)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return event(**({"now_ms": 0} | {name: FIELDS[name] for name in required - {"now_ms"}} | fields))


def example(phase: Phase) -> MemberState:
    script = Script()
    if phase is Phase.INITIAL:
        return script.state
    if phase is Phase.UNJOINED:
        return script.started().state
    if phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        script.joining()
        if phase is Phase.COMPLETING_REBALANCE:
            script.joined()
        return script.state
    script.stable("a0")
    if phase is Phase.FENCED:
        script.heartbeat(KafkaErrorCode.FENCED_INSTANCE_ID)
    elif phase is Phase.FAILED:
        script.heartbeat(KafkaErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif phase in (Phase.LEAVING, Phase.LEFT):
        script.feed(LeaveRequested, reason="drained")
        if phase is Phase.LEFT:
            script.feed(TasksStopped, tasks=tasks("a0"))
            script.feed(events.Left)
    return script.state


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", list(Phase))
def test_an_event_is_in_the_table_or_a_mistake_of_the_driver(phase: Phase, event: type[Event]) -> None:
    state = example(phase)
    assert state.phase is phase
    if event in TRANSITIONS[phase]:
        after, _ = handle(state, make(event))
        after.validate()
        assert after.phase in TRANSITIONS[phase][event].leads_to
    else:
        with pytest.raises(LocalProtocolError, match=event.__name__):
            handle(state, make(event))


REQUESTS = {
    Phase.UNJOINED: [Request.FIND_COORDINATOR],
    Phase.PREPARING_REBALANCE: [Request.JOIN],
    Phase.COMPLETING_REBALANCE: [Request.SYNC],
    Phase.STABLE: [Request.FIND_COORDINATOR],
    Phase.LEAVING: [Request.FIND_COORDINATOR, Request.LEAVE],
}


@pytest.mark.parametrize("error", [error for error in KafkaErrorCode if error is not KafkaErrorCode.NONE])
@pytest.mark.parametrize(("phase", "request_"), [(phase, each) for phase in REQUESTS for each in REQUESTS[phase]])
def test_whatever_a_request_is_answered_with_the_member_goes_on_or_ends(
    phase: Phase, request_: Request, error: KafkaErrorCode
) -> None:
    state = example(phase).changed({"awaiting": 7})
    after, commands = handle(state, make(RequestRejected, seq=7, request=request_, error=error, member_id=ME))
    after.validate()
    assert after.phase.ended or after.next_deadline() is not None or commands
    heard, _ = handle(
        state,
        make(
            HeartbeatAnswered,
            sent_at_ms=0,
            member_id=state.member_id,
            generation=state.generation,
            error=error,
        ),
    )
    heard.validate()


def test_each_request_has_its_reactions() -> None:
    assert REACTIONS.keys() == OTHERWISE.keys() == set(Request)


def _any_target(rng: random.Random, leader: str, some: list[Tasks]) -> bytes:
    target, revoked = rng.choice(some), rng.choice(some)
    error = rng.choice([0, 0, 0, 0, 1, 9])
    return v3.encode_assignment(
        ExtensibleAssignment(
            error=error,
            leader=leader,
            target=None if error else PackedTasks.of(target - revoked),
            revoked=PackedTasks.of(revoked),
            learning=PackedTasks.of(rng.choice(some)),
            learned=PackedTasks.of(rng.choice(some)),
            delay_ms=rng.choice([0, 40_000]),
            shutdown=rng.random() < 0.1,
            config_offset=ConfigOffset(rng.randint(0, 3)),
            epoch=rng.choice([None, Epoch(1), Epoch(7)]),
        )
    )


def _any_assignment(rng: random.Random, leader: str, some: list[Tasks]) -> bytes:
    version, assigned, revoked = rng.choice([0, 1, 1, 2, 2, 2]), rng.choice(some), rng.choice(some)
    if rng.random() < 0.05:
        return b"\xff"
    return encode_assignment(
        Assignment(
            version=version,
            error=rng.choice([0, 0, 0, 0, 1, 9]),
            leader=leader,
            assigned=assigned - revoked,
            revoked=revoked if version else tasks(""),
            delay_ms=rng.choice([0, 40_000]) if version else 0,
            config_offset=ConfigOffset(rng.randint(0, 3)),
        )
    )


def _any_fields(rng: random.Random, state: MemberState, now_ms: int) -> dict[str, Any]:
    some = [tasks(""), tasks("a0"), tasks("a0 a1"), tasks("a2"), state.stopping, state.owned]
    return {
        "now_ms": now_ms,
        "sent_at_ms": now_ms,
        "seq": (state.awaiting or 0) - rng.choice([0, 0, 0, 0, 1]),
        "error": rng.choice([*KafkaErrorCode, *[KafkaErrorCode.NONE, KafkaErrorCode.REBALANCE_IN_PROGRESS] * 10]),
        "tasks": rng.choice([*some, state.stopping]),
        "assignment": (_any_target if state.protocol is SubProtocol.EXTENSIBLE else _any_assignment)(
            rng, state.leader, some
        ),
        "progress": {task: rng.choice([0.1, 0.5, 1.0]) for task in tasks("a0 a1 a2")},
        "protocol": rng.choice([SubProtocol.COMPATIBLE, SubProtocol.SESSIONED, SubProtocol.EXTENSIBLE]),
        "request": rng.choice(REQUESTS.get(state.phase, [Request.JOIN])),
        "leader": rng.choice([ME, OTHER]),
        "skip_assignment": rng.random() < 0.1,
        "generation": max(1, state.generation + rng.choice([0, 0, 1])),
        "member_id": state.member_id or ME,
        "config_offset": rng.randint(0, 4),
        "predecessor": rng.choice(list(Predecessor)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_the_state_stays_valid_and_can_be_saved(seed: int) -> None:
    """Events in any order, also such as no coordinator would send: never an exception, never a broken state."""
    rng = random.Random(seed)
    for _ in range(20):
        script = _somewhere(rng)
        for _ in range(rng.randint(1, 60)):
            _take_a_step(rng, script)
        if script.state.phase is not Phase.LEAVING and not script.state.phase.ended:
            saved = json.loads(json.dumps(save(script.state, now_ms=script.now, wall_ms=1)))
            resume(saved, SETTINGS, now_ms=0, wall_ms=1).validate()


def _somewhere(rng: random.Random) -> Script:
    script = Script()
    match rng.randint(0, 3):
        case 0:
            return script
        case 1:
            return script.stable("a0 a1", protocol=SubProtocol.DEFAULT)
        case 2:
            saved = save(script.stable("a0 a1").state, now_ms=script.now, wall_ms=1)
            return Script(state=resume(saved, SETTINGS, now_ms=0, wall_ms=1))
        case _:
            return script.stable("a0 a1")


def _take_a_step(rng: random.Random, script: Script) -> None:
    before = script.state
    script.at(script.now + rng.choice([0, 5, 3_000, 20_000]))
    allowed = sorted(TRANSITIONS[before.phase].keys() - {LeaveRequested}, key=lambda event: event.__name__)
    event = rng.choice(allowed) if rng.random() > 0.01 or before.phase is Phase.INITIAL else LeaveRequested
    fields = _any_fields(rng, before, script.now)
    if event is events.RequestFailed and rng.random() < 0.5:
        fields["request"] = Request.HEARTBEAT
    script.state, commands = handle(
        before, make(event, **{name: fields[name] for name in event.__dataclass_fields__ if name in fields})
    )
    script.state.validate()
    started = [command for command in commands if isinstance(command, StartTasks)]
    assert all(command.tasks <= before.held | script.state.running for command in started)
    assert sum(isinstance(command, ArmTimer) for command in commands) <= 1
    ended = script.state.phase.ended
    assert ended or script.state.owned == script.state.stopping or script.state.next_deadline() is not None
