"""What is known of workers that are gone: who is back, who never comes back, who is expected back and when."""

from __future__ import annotations

import pytest
from assignor_group import MAX_DELAY_MS, Group, changed, moved_because, started, stopped, tasks_in

from airflow_provider.assignment.model import Absence, LeaveReason, Memory, MoveReason
from airflow_provider.assignment.policy import IMMEDIATE, Incremental
from airflow_provider.state.rounds.round_json import memory_from_json, memory_to_json
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId

W1, W2, W3, W4 = (WorkerId(f"w{number}") for number in range(1, 5))

NEVER = [
    Absence(left=LeaveReason.STOPPED),
    Absence(left=LeaveReason.DRAINED),
    Absence(left=LeaveReason.KILLED, returns_ms=60_000),
    Absence(returns_ms=0),
]
UNKNOWN = [None, Absence(), Absence(left=LeaveReason.RESTARTING)]


def group_of(workers: int, **jobs: int) -> Group:
    """Workers that keep their names, with tasks that run."""
    group = Group(jobs or {"a": 3 * workers})
    group.named = True
    group.join(*[f"w{number}" for number in range(1, workers + 1)])
    group.rebalance()
    return group


class TestWhoNeverComesBack:
    @pytest.mark.parametrize("absence", NEVER)
    def test_is_not_waited_for(self, absence: Absence) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.absent[W2] = absence
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert started(outcome) == lost == moved_because(MoveReason.LOST, outcome)
        assert not outcome.memory.ends_ms
        assert not changed(group.rebalance())

    @pytest.mark.parametrize("absence", UNKNOWN)
    def test_others_are_waited_for_as_ever(self, absence: Absence | None) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        if absence is not None:
            group.absent[W2] = absence
        outcome = group.rebalance()
        assert outcome.delay_ms == MAX_DELAY_MS
        assert outcome.memory.deadline_ms == group.now_ms + MAX_DELAY_MS
        assert outcome.memory.assignment[W2] == lost

    def test_is_not_waited_for_either_while_others_are(self) -> None:
        group = group_of(4)
        waiting = group.leave("w2")
        group.rebalance()
        group.wait(100_000)
        lost = group.leave("w3")
        group.absent[W3] = NEVER[0]
        outcome = group.rebalance()
        assert outcome.delay_ms == MAX_DELAY_MS - 100_000
        assert started(outcome) == lost
        assert outcome.memory.assignment[W2] == waiting

    def test_a_word_that_comes_late_ends_the_wait(self) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.rebalance()
        group.absent[W2] = NEVER[0]
        assert started(group.rebalance()) == lost

    def test_the_pause_after_rounds_that_revoked_goes_on_without_its_tasks(self) -> None:
        group = group_of(1, a=12)
        group.join("w2")
        assert stopped(group.rebalance())
        group.join("w3")
        paced = group.rebalance()
        assert paced.delay_ms
        lost = group.leave("w2")
        group.absent[W2] = NEVER[0]
        outcome = group.rebalance()
        assert started(outcome) == lost
        assert outcome.delay_ms == paced.delay_ms


class TestWhoSaysWhenItIsBack:
    def test_is_waited_for_until_then(self) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.absent[W2] = Absence(returns_ms=20_000)
        missed = group.rebalance()
        assert missed.delay_ms == 20_000
        assert not changed(missed)
        group.absent.clear()
        group.wait(15_000)
        assert group.rebalance().delay_ms == 5_000
        group.wait(5_000)
        over = group.rebalance()
        assert over.delay_ms == 0
        assert started(over) == lost
        assert not over.memory.ends_ms

    def test_but_no_longer_than_the_maximum(self) -> None:
        group = group_of(3)
        group.leave("w2")
        group.absent[W2] = Absence(left=LeaveReason.RESTARTING, returns_ms=MAX_DELAY_MS + 1)
        assert group.rebalance().delay_ms == MAX_DELAY_MS

    def test_each_in_its_own_time(self) -> None:
        group = group_of(4)
        first, second = group.leave("w2"), group.leave("w3")
        group.absent |= {W2: Absence(returns_ms=20_000), W3: Absence(returns_ms=50_000)}
        assert group.rebalance().delay_ms == 20_000
        group.wait(20_000)
        one = group.rebalance()
        assert (one.delay_ms, started(one)) == (30_000, first)
        group.wait(30_000)
        two = group.rebalance()
        assert (two.delay_ms, started(two)) == (0, second)

    def test_whoever_says_nothing_is_waited_for_beside_it(self) -> None:
        group = group_of(4)
        first, second = group.leave("w2"), group.leave("w3")
        group.absent[W2] = Absence(returns_ms=20_000)
        missed = group.rebalance()
        assert missed.delay_ms == 20_000
        assert missed.memory.deadline_ms == group.now_ms + MAX_DELAY_MS
        group.wait(20_000)
        one = group.rebalance()
        assert (one.delay_ms, started(one)) == (MAX_DELAY_MS - 20_000, first)
        group.wait(MAX_DELAY_MS - 20_000)
        assert started(group.rebalance()) == second

    def test_the_wait_survives_its_leader_and_nothing_is_evened_out_meanwhile(self) -> None:
        group = group_of(3)
        group.leave("w2")
        group.absent[W2] = Absence(returns_ms=20_000)
        group.rebalance()
        group.wait(5_000)
        group.memory = memory_from_json(memory_to_json(group.memory))
        group.join("w4")
        outcome = group.rebalance()
        assert outcome.delay_ms == 15_000
        assert not changed(outcome)

    def test_what_it_says_again_does_not_begin_the_wait_anew(self) -> None:
        group = group_of(3)
        group.leave("w2")
        group.absent[W2] = Absence(returns_ms=20_000)
        group.rebalance()
        group.wait(5_000)
        assert group.rebalance().delay_ms == 15_000

    @pytest.mark.parametrize("before", [None, Absence(returns_ms=MAX_DELAY_MS)])
    def test_what_it_says_after_it_was_missed_shortens_the_wait(self, before: Absence | None) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.absent |= {} if before is None else {W2: before}
        group.rebalance()
        group.wait(5_000)
        group.absent[W2] = Absence(returns_ms=20_000)
        assert group.rebalance().delay_ms == 20_000
        group.wait(5_000)
        assert group.rebalance().delay_ms == 15_000
        group.wait(15_000)
        over = group.rebalance()
        assert (over.delay_ms, started(over)) == (0, lost)

    @pytest.mark.parametrize(
        ("before", "left_ms"), [(None, MAX_DELAY_MS - 5_000), (Absence(returns_ms=20_000), 15_000)]
    )
    def test_but_does_not_lengthen_it(self, before: Absence | None, left_ms: int) -> None:
        group = group_of(3)
        group.leave("w2")
        group.absent |= {} if before is None else {W2: before}
        group.rebalance()
        group.wait(5_000)
        group.absent[W2] = Absence(returns_ms=MAX_DELAY_MS)
        assert group.rebalance().delay_ms == left_ms

    def test_and_leaves_the_wait_for_others_alone(self) -> None:
        group = group_of(4)
        first, second = group.leave("w2"), group.leave("w3")
        group.rebalance()
        group.wait(5_000)
        group.absent[W2] = Absence(returns_ms=20_000)
        group.rebalance()
        group.wait(20_000)
        one = group.rebalance()
        assert (one.delay_ms, started(one)) == (MAX_DELAY_MS - 25_000, first)
        group.wait(MAX_DELAY_MS - 25_000)
        assert started(group.rebalance()) == second

    def test_a_clock_that_is_set_back_lengthens_no_wait_beyond_the_maximum(self) -> None:
        group = group_of(3)
        group.leave("w2")
        group.absent[W2] = Absence(returns_ms=20_000)
        group.rebalance()
        group.absent.clear()
        group.wait(-1_000_000)
        assert group.rebalance().delay_ms == MAX_DELAY_MS

    def test_a_policy_that_waits_for_nobody_does_not_wait_for_it_either(self) -> None:
        group = group_of(3)
        group.policy = IMMEDIATE
        lost = group.leave("w2")
        group.absent[W2] = Absence(returns_ms=20_000)
        assert started(group.rebalance()) == lost


class TestWhoIsBack:
    def test_has_its_own_in_the_round_of_its_return_and_the_delay_ends(self) -> None:
        group = group_of(3)
        lost = group.leave("w2")
        group.rebalance()
        group.wait(7_000)
        group.join("w2")
        outcome = group.rebalance()
        assert outcome.delay_ms == 0
        assert outcome.assigned == {W1: NO_TASKS, W2: lost, W3: NO_TASKS}
        assert moved_because(MoveReason.RETURNED, outcome) == lost
        assert not outcome.memory.ends_ms
        assert not changed(group.rebalance())

    @pytest.mark.parametrize("absence", [None, Absence(returns_ms=50_000)])
    def test_while_another_is_still_missed(self, absence: Absence | None) -> None:
        group = group_of(4)
        own, waiting = group.leave("w2"), group.leave("w3")
        group.absent |= {} if absence is None else {W3: absence}
        group.rebalance()
        group.absent.clear()
        group.wait(10_000)
        group.join("w2")
        outcome = group.rebalance()
        assert outcome.assigned[W2] == started(outcome) == own
        assert outcome.memory.assignment[W3] == waiting
        assert outcome.delay_ms == (40_000 if absence else MAX_DELAY_MS - 10_000)

    def test_also_when_it_is_back_before_anybody_has_missed_it(self) -> None:
        group = group_of(3)
        own = group.leave("w2")
        group.join("w2")
        assert group.rebalance().assigned[W2] == own

    def test_also_when_evenness_comes_in_steps(self) -> None:
        group = group_of(3)
        group.policy = Incremental(max_moves=1)
        own = group.leave("w2")
        group.rebalance()
        group.join("w2")
        assert group.rebalance().assigned[W2] == own

    @pytest.mark.parametrize("named", [True, False])
    def test_what_is_above_its_share_by_now_moves_for_the_sake_of_balance(self, named: bool) -> None:
        """w1 has finished what it had, and w2 is to run two tasks: one of them goes to w1."""
        group = Group({"a": 2})
        group.named = named
        group.join("w1")
        group.memory = Memory(
            generation=group.last_completed, assignment={W2: group.configured}, members=frozenset({W1, W2})
        )
        group.rebalance()
        group.join("w2")
        group.wait(0 if named else group.rebalance().delay_ms)
        outcome = group.rebalance()
        moves = [move for move in outcome.moves if move.tasks & tasks_in(group.configured)]
        assert {(move.target, move.source, move.reason) for move in moves} == {
            (W1, W2, MoveReason.BALANCE),
            (W2, W2, MoveReason.RETURNED),
        }
        assert TaskId("a", 0) in outcome.target[W2]

    def test_whoever_keeps_no_name_waits_as_in_kafka_connect(self) -> None:
        group = group_of(3)
        group.leave("w2")
        group.rebalance()
        group.named = False
        group.join("w2")
        assert not changed(group.rebalance())
