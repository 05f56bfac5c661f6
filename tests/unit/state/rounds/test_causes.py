"""Why a group rebalances, as the record of each round says it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of

from airflow_provider.assignment.model import Absence, LeaveReason, Memory
from airflow_provider.state.rounds.causes import Cause, cause_of, lost_since
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.group_protocol.join_reasons import DELAY_OVER, OTHERS_BEGAN, STARTS
from airflow_provider.values.model import MemberId, TaskId, WorkerId

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
A0, A1 = frozenset({TaskId("a", 0)}), frozenset({TaskId("a", 1)})
NOW = 10_000
REVOKED = {W1: A1}
STOPPED = "revoked tasks have stopped"


def after(
    last: ClassicRecord | None, *members: WorkerId, wishes: str = "", otherwise: str = OTHERS_BEGAN, **absent: Absence
) -> Cause:
    """Of the round in which these are members, each with its name as its member id."""
    return cause_of(
        {name: MemberId(name) for name in members},
        {WorkerId(name): absence for name, absence in absent.items()},
        last,
        now_ms=NOW,
        wishes=wishes,
        otherwise=otherwise,
    )


def round_of(*members: WorkerId, **fields: Any) -> ClassicRecord:
    return record_of(dict.fromkeys(members, A0), **fields)


def test_each_round_of_a_chain_names_what_began_it() -> None:
    joined = after(round_of(W1), W1, W2)
    assert joined == Cause(reason="w2 joined")
    revoking = round_of(W1, W2, reason=joined.reason, revoked=REVOKED)
    going_on = after(revoking, W1, W2)
    assert going_on == Cause(reason="w2 joined", step=STOPPED)
    delayed = replace(revoking, step=STOPPED, revoked={}, delay_ms=9, memory=Memory(next_moves_at_ms=NOW))
    assert after(delayed, W1, W2) == Cause(reason="w2 joined", step="the next tasks may move")
    assert replace(delayed, step="the next tasks may move").because == "w2 joined: the next tasks may move"


def test_what_is_done_is_no_cause_of_what_comes_later() -> None:
    done = round_of(W1, W2, reason="w2 joined", step=STOPPED)
    assert after(done, W1, W2, otherwise="new work: a:1") == Cause(reason="new work: a:1")


def test_a_change_within_a_chain_is_named_before_what_began_the_chain() -> None:
    revoking = round_of(W1, W2, reason="w2 joined", revoked=REVOKED)
    third = after(revoking, W1, W2, W3)
    assert third.reason == "w3 joined; before that: w2 joined"
    fourth = after(replace(revoking, reason=third.reason), W1, W2, WorkerId("w4"))
    assert fourth.reason == "w4 joined; before that: w2 joined", "a group that is never done does not name ever more"


def test_a_new_wish_is_named_though_the_round_goes_on_with_a_step_and_a_repeated_one_is_not() -> None:
    first = round_of(W1, W2, reason="a learner is ready for a:0", revoked=REVOKED)
    second = after(first, W1, W2, wishes="a learner is ready for a:1")
    assert second == Cause(reason="a learner is ready for a:1; before that: a learner is ready for a:0")
    going_on = replace(first, reason=second.reason)
    assert after(going_on, W1, W2, wishes="a learner is ready for a:1") == Cause(reason=second.reason, step=STOPPED)
    assert after(first, W1, W2, W3, wishes="a learner is ready for a:1").reason.startswith("w3 joined; before that: ")


def test_new_work_during_a_delay_is_named_and_the_delay_ends_as_what_it_began_for() -> None:
    waiting = round_of(W1, reason="w2 got lost", delay_ms=9, memory=Memory(assignment={W2: A1}, deadline_ms=NOW + 1))
    new = after(waiting, W1, otherwise="new work: b:0")
    assert new == Cause(reason="new work: b:0; before that: w2 got lost")
    over = replace(waiting, memory=Memory(assignment={W2: A1}, deadline_ms=NOW))
    assert after(over, W1) == Cause(reason="w2 got lost", step="the scheduled delay is over")


def test_a_member_that_joins_late_for_a_step_goes_on_with_the_chain_that_is_done() -> None:
    """Another one's join has brought the round that the step was for, and nothing is left of it."""
    done = round_of(W1, W2, reason="w2 joined", step=STOPPED)
    assert after(done, W1, W2, otherwise=DELAY_OVER) == Cause(reason="w2 joined", step=DELAY_OVER)


@pytest.mark.parametrize("step", [STOPPED, DELAY_OVER])
def test_a_step_is_never_said_to_be_what_began_a_chain(step: str) -> None:
    """Of a chain whose first round nobody knows there is nothing to say."""
    assert after(round_of(W1, reason="", revoked=REVOKED), W1, otherwise=step).reason == STOPPED
    assert after(round_of(W1, reason=step, revoked=REVOKED), W1, W2).reason == "w2 joined"


@pytest.mark.parametrize(
    ("absence", "end"),
    [
        (Absence(left=LeaveReason.DRAINED), "w2 left (drained)"),
        (Absence(left=LeaveReason.RESTARTING, returns_ms=60_000), "w2 left (restarting)"),
        (Absence(returns_ms=0), "w2 got lost"),
        (None, "w2 went away"),
    ],
)
def test_a_worker_that_crashed_is_told_from_one_that_left_in_order(absence: Absence | None, end: str) -> None:
    said: dict[str, Any] = {} if absence is None else {"w2": absence}
    assert after(round_of(W1, W2), W1, **said).reason == end


@pytest.mark.parametrize(
    ("absence", "lost"),
    [(Absence(left=LeaveReason.DRAINED), False), (Absence(returns_ms=0), True), (None, True)],
)
def test_who_went_without_a_word_is_lost(absence: Absence | None, lost: bool) -> None:
    last = replace(round_of(W1, W2), members={W1: MemberId("w1-x"), W2: MemberId("w2-x")})
    said = {} if absence is None else {W2: absence}
    assert lost_since({W1: MemberId("w1-x")}, said, last) == (frozenset({W2}) if lost else frozenset())
    assert lost_since({W1: MemberId("w1-x"), W2: MemberId("new")}, said, last) == frozenset(), "it is back"
    assert lost_since({W1: MemberId("w1-x")}, said, None) == frozenset(), "nobody knows who was there"


def test_a_worker_of_another_make_says_nothing_and_is_not_called_lost() -> None:
    last = replace(round_of(W1, W2, BRIDGE), members={W1: MemberId("x"), W2: MemberId(W2), BRIDGE: MemberId("b")})
    assert lost_since({W1: MemberId("x")}, {}, last) == frozenset()


def test_several_ends_are_told_apart() -> None:
    cause = after(round_of(W1, W2, W3), W1, w2=Absence(), w3=Absence(left=LeaveReason.STOPPED))
    assert cause.reason == "w2 got lost; w3 left (stopped)"


def test_whom_tasks_waited_for_is_back() -> None:
    waiting = round_of(W1, reason="w2 got lost", delay_ms=9, memory=Memory(assignment={W2: A1}, deadline_ms=NOW + 1))
    assert after(waiting, W1, W2, W3).reason == "w3 joined; w2 came back; before that: w2 got lost"


@pytest.mark.parametrize("joins", [OTHERS_BEGAN, STARTS])
def test_a_worker_that_was_away_for_less_than_a_round_is_named(joins: str) -> None:
    """Nobody came or went by name: the coordinator gave it another member id."""
    last = replace(round_of(W1, W2), members={W1: MemberId("w1"), W2: MemberId("before")})
    assert after(last, W1, W2, otherwise=joins).reason == "w2 came back"
    assert after(last, W1, W2, otherwise="new work: a:1").reason == "new work: a:1", "it was back without a round"


def test_an_older_release_has_written_no_step_and_whatever_it_wrote_is_no_reason_to_fail() -> None:
    record = round_of(W1, reason="w2 joined", step=STOPPED)
    data = json.loads(json.dumps(record.to_json()))
    assert ClassicRecord.from_json(data) == record
    del data["step"]
    assert ClassicRecord.from_json(data) == replace(record, step="")
    assert ClassicRecord.from_json(data).because == "w2 joined"
    with pytest.raises(ValueError, match="a step is a text"):
        ClassicRecord.from_json({**data, "step": 7})
