"""The referee's leader behaves as in KIP-415: it is Java's own assignor, on a clock that the history sets."""

from __future__ import annotations

from typing import Any

import pytest
from referee import Referee

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

MAX_DELAY_MS = 300_000
JOBS = {"a": 3, "b": 3}

Pairs = list[list[Any]]
ALL: Pairs = [[job, index] for job in ("a", "b") for index in (-1, 0, 1, 2)]


def round_(generation: int, owned: dict[str, Pairs], *, now: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "now": now,
        "generation": generation,
        "last_completed": generation - 1,
        "jobs": JOBS,
        "owned": owned,
        **more,
    }


def decided(referee: Referee, *history: dict[str, Any], max_delay_ms: int = MAX_DELAY_MS) -> dict[str, Any]:
    """The decision of the last round of a history, with sorted tasks."""
    *_, last = referee.replay(history, max_delay_ms=max_delay_ms)
    sides = {side: {worker: sorted(tasks) for worker, tasks in last[side].items()} for side in ("assigned", "revoked")}
    return {**sides, "delay": last["delay"]}


def counts(by_worker: dict[str, Pairs]) -> dict[str, int]:
    return {worker: len(tasks) for worker, tasks in by_worker.items()}


FIRST = round_(1, {"w1": []})
SECOND_JOINS = round_(2, {"w1": ALL, "w2": []})


def test_the_first_member_gets_everything(referee: Referee) -> None:
    assert decided(referee, FIRST) == {"assigned": {"w1": ALL}, "revoked": {"w1": []}, "delay": 0}


def test_a_second_member_has_half_revoked_for_it(referee: Referee) -> None:
    outcome = decided(referee, FIRST, SECOND_JOINS)
    assert outcome["assigned"] == {"w1": [], "w2": []}
    assert counts(outcome["revoked"]) == {"w1": 4, "w2": 0}
    assert outcome["delay"] == 0


def test_what_was_revoked_is_assigned_in_the_next_round(referee: Referee) -> None:
    _, second = referee.replay([FIRST, SECOND_JOINS], max_delay_ms=MAX_DELAY_MS)
    revoked = second["revoked"]["w1"]
    kept = [task for task in ALL if task not in revoked]
    third = decided(referee, FIRST, SECOND_JOINS, round_(3, {"w1": kept, "w2": []}))
    assert third == {"assigned": {"w1": [], "w2": sorted(revoked)}, "revoked": {"w1": [], "w2": []}, "delay": 0}


class TestLoss:
    """w2 has half of the tasks and goes away at 1,000 ms."""

    BEFORE = (FIRST, round_(2, {"w1": ALL[:4], "w2": ALL[4:]}))
    GONE = round_(3, {"w1": ALL[:4]}, now=1_000)

    def test_it_starts_the_delay(self, referee: Referee) -> None:
        outcome = decided(referee, *self.BEFORE, self.GONE)
        assert outcome == {"assigned": {"w1": []}, "revoked": {"w1": []}, "delay": MAX_DELAY_MS}

    def test_the_clock_is_the_historys(self, referee: Referee) -> None:
        later = round_(4, {"w1": ALL[:4]}, now=101_000)
        assert decided(referee, *self.BEFORE, self.GONE, later)["delay"] == 200_000

    def test_a_worker_that_comes_back_gets_its_own_tasks(self, referee: Referee) -> None:
        back = round_(4, {"w1": ALL[:4], "w2": []}, now=101_000)
        over = round_(5, {"w1": ALL[:4], "w2": []}, now=301_000)
        outcome = decided(referee, *self.BEFORE, self.GONE, back, over)
        assert outcome == {"assigned": {"w1": [], "w2": ALL[4:]}, "revoked": {"w1": [], "w2": []}, "delay": 0}

    def test_when_the_delay_is_over_the_tasks_move(self, referee: Referee) -> None:
        over = round_(4, {"w1": ALL[:4]}, now=301_000)
        outcome = decided(referee, *self.BEFORE, self.GONE, over)
        assert outcome == {"assigned": {"w1": ALL[4:]}, "revoked": {"w1": []}, "delay": 0}

    def test_a_new_leader_gives_no_delay(self, referee: Referee) -> None:
        outcome = decided(referee, *self.BEFORE, {**self.GONE, "event": "leader_restart"})
        assert outcome == {"assigned": {"w1": ALL[4:]}, "revoked": {"w1": []}, "delay": 0}

    def test_the_maximum_is_the_callers(self, referee: Referee) -> None:
        outcome = decided(referee, *self.BEFORE, self.GONE, max_delay_ms=0)
        assert outcome == {"assigned": {"w1": ALL[4:]}, "revoked": {"w1": []}, "delay": 0}


def test_a_task_of_two_members_is_revoked_from_both(referee: Referee) -> None:
    outcome = decided(referee, FIRST, round_(2, {"w1": ALL[:5], "w2": ALL[4:]}))
    assert ALL[4] in outcome["revoked"]["w1"]
    assert ALL[4] in outcome["revoked"]["w2"]


def test_a_round_after_one_that_revoked_waits_before_it_revokes_again(referee: Referee) -> None:
    _, second = referee.replay([FIRST, SECOND_JOINS], max_delay_ms=MAX_DELAY_MS)
    kept = [task for task in ALL if task not in second["revoked"]["w1"]]
    outcome = decided(referee, FIRST, SECOND_JOINS, round_(3, {"w1": kept, "w2": [], "w3": [], "w4": []}))
    assert counts(outcome["revoked"]) == {"w1": 0, "w2": 0, "w3": 0, "w4": 0}
    assert outcome["delay"] == 40


def test_a_member_that_claims_everything_is_told_to_stop_it_in_each_round_without_a_delay(referee: Referee) -> None:
    """The others stop what they have, and never get it back."""
    lying = [round_(generation, {"w1": ALL if generation == 2 else [], "liar": ALL}) for generation in range(2, 8)]
    _, _, *later = referee.replay([FIRST, *lying], max_delay_ms=0)
    assert [counts(outcome["revoked"]) for outcome in later] == [{"w1": 0, "liar": 4}] * 5
    assert [counts(outcome["assigned"]) for outcome in later] == [{"w1": 0, "liar": 0}] * 5
