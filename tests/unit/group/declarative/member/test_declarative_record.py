"""What a target of a declarative group looks like in the topics: what has moved, why, and what waits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_provider.assignment.model import LeaveReason, Move, MoveReason
from airflow_provider.group.declarative.assignors.client_assignor import (
    Assignment,
    Group,
    GroupMember,
    Reason,
    WorkerFacts,
)
from airflow_provider.group.declarative.assignors.facts import COMPATIBLE, encode_facts
from airflow_provider.group.declarative.member.recording import record_of
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberTarget
from airflow_provider.state.records import RebalanceEvent
from airflow_provider.state.reports.narration import epoch_in_words
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.rounds.reading import group_record_from_json
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, TaskId, Tasks, WorkerId

W1, W2, W3 = map(WorkerId, ("w1", "w2", "w3"))
M1, M2, M3 = map(MemberId, ("w1-x", "w2-x", "w3-x"))


def tasks(names: str) -> Tasks:
    return frozenset(TaskId(name[0], int(name[1:])) for name in names.split())


def member(worker: WorkerId, had: str = "", reason: int = Reason.NONE) -> GroupMember:
    return GroupMember(instance_id=worker, reason=reason, target=MemberTarget(tasks=tasks(had)))


def record(group: Group, *, delayed: dict[MemberId, str] | None = None, **assigned: str) -> DeclarativeRecord:
    ids = {"w1": M1, "w2": M2, "w3": M3}
    assignment = Assignment(
        members={ids[name]: MemberTarget(tasks=tasks(what)) for name, what in assigned.items()},
        delayed={one: MemberTarget(tasks=tasks(what)) for one, what in (delayed or {}).items()},
    )
    return record_of(
        group,
        assignment,
        epoch=GroupEpoch(7),
        config_offset=ConfigOffset(3),
        asks_at_ms=6_000 if delayed else 0,
    )


def test_it_says_who_has_what_and_why_it_moved() -> None:
    group = Group(
        computing=M1,
        members={M1: member(W1, "a0 a1 z0"), M2: member(W2)},
        departed={M3: member(W3, "b0")},
        configured=tasks("a0 a1 b0 c0"),
        now_ms=1_000,
    )
    made = record(group, w1="a0 b0", w2="a1 c0")
    assert (made.epoch, made.leader, made.config_offset, made.members) == (7, W1, 3, {W1: M1, W2: M2})
    assert made.assignment == {W1: tasks("a0 b0"), W2: tasks("a1 c0")}
    assert set(made.moves) == {
        Move(tasks=tasks("b0"), source=W3, target=W1, reason=MoveReason.LOST),
        Move(tasks=tasks("a1"), source=W1, target=W2, reason=MoveReason.BALANCE),
        Move(tasks=tasks("c0"), source=None, target=W2, reason=MoveReason.NEW),
        Move(tasks=tasks("z0"), source=W1, target=None, reason=MoveReason.DELETED),
    }
    assert (made.reason, made.delay_ms, made.waiting, made.is_without(W3, Epoch(6))) == (
        "without w3",
        0,
        tasks(""),
        True,
    )
    words = "\n".join(epoch_in_words(made, W1))
    assert "Epoch 7 (group epoch 7), led by this worker, with 2 workers: w1, w2 (without w3)" in words


def test_lost_tasks_wait_and_come_back() -> None:
    gone = Group(computing=M1, members={M1: member(W1, "a0")}, departed={M2: member(W2, "a1")}, now_ms=1_000)
    waits = record(gone, w1="a0", delayed={M2: "a1"})
    assert (waits.delay_ms, waits.deadline_ms, waits.waiting_by_worker) == (5_000, 6_000, {W2: tasks("a1")})
    back = Group(
        computing=M1,
        members={M1: member(W1, "a0"), M3: member(W2)},
        departed={M2: member(W2, "a1")},
        now_ms=2_000,
    )
    made = record(back, w1="a0", w3="a1")
    assert made.moves == (Move(tasks=tasks("a1"), source=W2, target=W2, reason=MoveReason.RETURNED),)
    assert (made.reason, made.members) == ("with w2", {W1: M1, W2: M3})


def test_it_says_when_a_delay_began_it_or_what_is_configured() -> None:
    asked = Group(computing=M1, members={M1: member(W1, "a0", Reason.DELAY_OVER)}, now_ms=1)
    assert record(asked, w1="a0").reason == "the delay is over"
    configured = Group(computing=M1, members={M1: member(W1, "a0")}, now_ms=1)
    assert record(configured, w1="a0 a1").reason == "the configured tasks have changed"


@pytest.mark.parametrize(
    ("members", "configured", "now_ms", "reason"),
    [
        ({M1: W1, M2: W2}, "a0 a1", 2_000, "the metadata of a worker has changed"),
        ({M1: W1, M2: W2, M3: W3}, "a0 a1", 2_000, "with w3"),
        ({M1: W1}, "a0 a1", 2_000, "without w2"),
        ({M1: W1, MemberId("w2-y"): W2}, "a0 a1", 2_000, "back: w2"),
        ({M1: W1, M2: W2}, "a0 a1", 6_000, "the delay is over"),
        ({M1: W1, M2: W2}, "a0 a1 b0 b1 b2 b3 b4 b5", 2_000, "new work: b:0, b:1, b:2, b:3, b:4 and 1 more"),
        ({M1: W1, M2: W2}, "", 2_000, "ended: a:1; removed: a:0"),
        ({M1: W1, M3: W3}, "a0 b0", 2_000, "without w2; with w3; new work: b:0; ended: a:1"),
    ],
)
def test_it_says_what_is_another_thing_than_before(
    members: dict[MemberId, WorkerId], configured: str, now_ms: int, reason: str
) -> None:
    """Who has nothing has not come by that, and what one has once said of a delay is no news for ever."""
    waits = Group(
        computing=M1, members={M1: member(W1, "a0"), M2: member(W2)}, departed={M3: member(W3, "a1")}, now_ms=1
    )
    group = Group(
        computing=M1,
        members={one: member(name, "", Reason.DELAY_OVER) for one, name in members.items()},
        configured=tasks(configured),
        now_ms=now_ms,
    )
    made = record_of(
        group,
        Assignment(members=dict.fromkeys(members, MemberTarget())),
        epoch=GroupEpoch(8),
        config_offset=ConfigOffset(3),
        asks_at_ms=0,
        before=record(waits, w1="a0", w2="", delayed={M3: "a1"}),
        done=tasks("a1"),
    )
    assert made.reason == reason


def test_what_has_ended_by_itself_is_not_said_to_stop() -> None:
    group = Group(computing=M1, members={M1: member(W1, "a0 a1 a2")}, configured=tasks("a2"), now_ms=2_000)
    made = record_of(
        group,
        Assignment(members={M1: MemberTarget(tasks=tasks("a2"))}),
        epoch=GroupEpoch(8),
        config_offset=ConfigOffset(3),
        asks_at_ms=0,
        done=tasks("a0"),
    )
    assert made.moves == (Move(tasks=tasks("a1"), source=W1, target=None, reason=MoveReason.DELETED),)


def test_of_many_that_come_it_names_some() -> None:
    many = {MemberId(f"m{number}"): member(WorkerId(f"w{number}")) for number in range(8)}
    made = record_of(
        Group(computing=MemberId("m0"), members=many, now_ms=1),
        Assignment(members=dict.fromkeys(many, MemberTarget())),
        epoch=GroupEpoch(1),
        config_offset=ConfigOffset(0),
        asks_at_ms=0,
    )
    assert made.reason == "with w0, w1, w2, w3, w4 and 3 more"


@pytest.mark.parametrize(
    ("leaving", "lost"), [(None, {W2}), (LeaveReason.DRAINED, set())], ids=["without a word", "in order"]
)
def test_who_has_gone_without_a_word_is_lost(leaving: LeaveReason | None, lost: set[WorkerId]) -> None:
    last = record(Group(computing=M1, members={M1: member(W1, "a0"), M2: member(W2, "a1")}, now_ms=1), w1="a0", w2="a1")
    said = encode_facts(WorkerFacts(leaving=leaving), COMPATIBLE)
    gone = replace(member(W2, "a1"), version=COMPATIBLE, metadata=said)
    members = {M1: member(W1, "a0")}
    for before, expected in ((last, lost), (None, set())):
        made = record_of(
            Group(computing=M1, members=members, departed={M2: gone}, configured=tasks("a0 a1"), now_ms=2),
            Assignment(members={M1: MemberTarget(tasks=tasks("a0 a1"))}),
            epoch=GroupEpoch(8),
            config_offset=ConfigOffset(3),
            asks_at_ms=0,
            before=before,
        )
        assert made.lost == expected
        assert group_record_from_json(json.loads(json.dumps(made.to_json()))) == made


def test_it_is_read_again_from_both_topics() -> None:
    group = Group(computing=M1, members={M1: member(W1, "a0")}, departed={M2: member(W2, "a1")}, now_ms=1_000)
    made = record(group, w1="a0", delayed={M2: "a1"})
    assert group_record_from_json(json.loads(json.dumps(made.to_json()))) == made
    event = RebalanceEvent.of(made)
    assert RebalanceEvent.from_json(json.loads(json.dumps(event.to_json()))) == event
    assert made.is_same_round(made)


@pytest.mark.parametrize("wrong", [{"epoch": "x"}, {"moves": None}, {"reason": 3}, {"members": []}, {"waits": 1}])
def test_what_it_is_not_is_refused(wrong: dict[str, object]) -> None:
    group = Group(computing=M1, members={M1: member(W1, "a0")}, now_ms=1_000)
    with pytest.raises(ValueError, match=r"record|number|text"):
        group_record_from_json(record(group, w1="a0").to_json() | wrong)
