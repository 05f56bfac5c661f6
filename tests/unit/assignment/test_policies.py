"""Resolution policies: as values, and what the incremental one makes of the situations that call for it."""

from __future__ import annotations

import json

import pytest
from assignor_group import DEFERRED, MAX_DELAY_MS, Group, changed, moved_because, started, stopped
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment.balancing.balance import limited
from airflow_provider.assignment.model import GroupAssignment, MoveReason
from airflow_provider.assignment.policy import IMMEDIATE, Incremental, Policy, PolicyName
from airflow_provider.state.rounds.round_json import memory_from_json, memory_to_json
from airflow_provider.values.model import TaskId, WorkerId

INTERVAL_MS = 10_000
IN_TWOS = Incremental(max_moves=2, move_interval_ms=INTERVAL_MS)
W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")


def group_of(workers: int, tasks: int, policy: Policy = IN_TWOS) -> Group:
    """In balance, with one job of so many tasks."""
    group = Group({"job": tasks}, policy=policy)
    group.join(*[f"w{number}" for number in range(1, workers + 1)])
    group.rebalance()
    return group


def shape(outcome: GroupAssignment) -> tuple[int, int, int]:
    """How many stop, how many start, and the delay."""
    return len(stopped(outcome)), len(started(outcome)), outcome.delay_ms


class TestInSteps:
    def test_a_join_is_paced(self) -> None:
        group = group_of(1, 10)
        group.join("w2")
        assert [shape(outcome) for outcome in group.settle()] == [
            (2, 0, 0),
            (0, 2, INTERVAL_MS),
            (2, 0, 0),
            (0, 2, INTERVAL_MS),
            (1, 0, 0),
            (0, 1, 0),
            (0, 0, 0),
        ]
        assert group.task_counts() == [5, 5]

    def test_without_an_interval_the_round_that_gives_takes_again(self) -> None:
        group = group_of(1, 10, Incremental(max_moves=2, move_interval_ms=0))
        group.join("w2")
        assert [shape(group.rebalance()) for _ in range(5)] == [(2, 0, 0), (2, 2, 0), (1, 2, 0), (0, 1, 0), (0, 0, 0)]
        assert group.task_counts() == [5, 5]

    def test_whoever_has_the_most_gives_first(self) -> None:
        assert limited({W1: 5, W2: 3, W3: 1}, 3) == {W1: 3, W2: 0, W3: 0}
        assert limited({W1: 5, W2: 3, W3: 1}, 5) == {W1: 4, W2: 1, W3: 0}
        assert limited({W1: 5, W2: 3, W3: 1}, 9) == {W1: 5, W2: 3, W3: 1}
        assert limited({W1: 5}, 0) == {W1: 0}

    def test_planners_count_and_go_first(self) -> None:
        group = Group({f"job{number}": 1 for number in range(6)}, policy=IN_TWOS)
        group.join("w1")
        group.rebalance()
        group.join("w2")
        moved = [task for outcome in group.settle() for task in sorted(stopped(outcome))]
        assert [task.is_planner for task in moved] == [True, True, True, False, False, False]
        assert (group.planner_counts(), group.task_counts()) == ([3, 3], [3, 3])

    def test_who_joins_in_the_interval_waits_for_its_end(self) -> None:
        group = group_of(1, 12)
        group.join("w2")
        group.rebalance()
        group.rebalance()
        for _ in range(3):
            group.wait(1_000)
            group.join(f"w{len(group.owned) + 1}")
            last = group.rebalance()
            assert stopped(last) == frozenset()
        assert last.delay_ms == INTERVAL_MS - 3_000
        group.wait(last.delay_ms)
        assert len(stopped(group.rebalance())) == 2
        group.settle()
        assert group.task_counts() == [2, 2, 2, 3, 3]

    def test_there_is_an_interval_also_after_the_last_step(self) -> None:
        group = group_of(1, 4)
        group.join("w2")
        assert [shape(group.rebalance()) for _ in range(2)] == [(2, 0, 0), (0, 2, 0)]
        group.wait(1_000)
        group.join("w3")
        assert group.rebalance().delay_ms == INTERVAL_MS - 1_000

    def test_new_work_does_not_wait(self) -> None:
        group = group_of(1, 10)
        group.join("w2")
        group.rebalance()
        group.rebalance()
        group.jobs["more"] = 5
        outcome = group.rebalance()
        assert started(outcome) == {TaskId("more", index) for index in range(-1, 5)}
        assert {move.target for move in outcome.moves} == {W2}

    def test_the_interval_survives_the_leader_whose_clock_may_be_behind(self) -> None:
        group = group_of(1, 10)
        group.join("w2")
        group.rebalance()
        group.rebalance()
        group.memory = memory_from_json(json.loads(json.dumps(memory_to_json(group.memory))))
        group.wait(4_000)
        assert group.rebalance().delay_ms == 6_000
        group.wait(-60_000)
        assert group.rebalance().delay_ms == INTERVAL_MS

    def test_a_leader_with_another_policy_goes_on_from_there(self) -> None:
        group = group_of(1, 10)
        group.join("w2")
        group.rebalance()
        group.rebalance()
        group.policy = DEFERRED
        assert len(stopped(group.rebalance())) == 3
        group.policy = IN_TWOS
        group.join("w3")
        group.settle()
        assert group.task_counts() == [3, 3, 4]


class TestLostWork:
    def test_it_waits_as_long_as_under_the_deferred_policy_also_in_an_interval(self) -> None:
        group = group_of(2, 12)
        group.join("w3")
        group.rebalance()
        assert group.rebalance().delay_ms == INTERVAL_MS
        lost = group.leave("w2")
        assert shape(group.rebalance()) == (0, 0, MAX_DELAY_MS)
        group.wait(INTERVAL_MS)
        assert shape(group.rebalance()) == (0, 0, MAX_DELAY_MS - INTERVAL_MS)
        group.wait(MAX_DELAY_MS - INTERVAL_MS)
        assert lost <= started(group.rebalance())
        group.settle()
        assert group.task_counts() == [6, 6]

    def test_an_interval_goes_on_while_it_waits(self) -> None:
        long_ms = 10 * MAX_DELAY_MS
        group = group_of(2, 12, Incremental(max_moves=2, move_interval_ms=long_ms))
        group.join("w3")
        group.rebalance()
        assert group.rebalance().delay_ms == long_ms
        group.leave("w2")
        group.wait(group.rebalance().delay_ms)
        group.rebalance()
        group.join("w4")
        assert shape(group.rebalance()) == (0, 0, long_ms - MAX_DELAY_MS)

    def test_it_is_given_out_all_at_once_for_nobody_has_it(self) -> None:
        group = group_of(3, 12, Incremental(max_moves=1, move_interval_ms=INTERVAL_MS, max_delay_ms=0))
        lost = group.leave("w3")
        assert len(lost) > 1
        assert started(group.rebalance()) == lost

    def test_who_comes_back_gets_its_own_and_nobody_else_stops(self) -> None:
        group = group_of(3, 12)
        lost = group.leave("w3")
        group.rebalance()
        group.join("w3")
        outcome = group.rebalance()
        group.wait(outcome.delay_ms)
        outcome = group.rebalance()
        assert outcome.assigned[W3] == lost == moved_because(MoveReason.RETURNED, outcome)
        assert stopped(outcome) == frozenset()

    def test_what_nobody_runs_does_not_count(self) -> None:
        """A worker that is back for the work of two: what is above its share goes on to the others immediately."""
        group = group_of(4, 16, Incremental(max_moves=1, move_interval_ms=10 * MAX_DELAY_MS))
        lost = group.leave("w3", "w4")
        group.rebalance()
        group.join("w3")
        group.wait(group.rebalance().delay_ms)
        outcome = group.rebalance()
        assert started(outcome) == lost
        assert outcome.assigned[W3] < lost
        assert stopped(outcome) == frozenset()


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@given(
    jobs=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    crowds=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    max_moves=st.integers(1, 8),
    interval_ms=st.sampled_from([0, 1, 30_000]),
)
def test_steps_end_where_one_round_would_and_move_no_more(
    jobs: list[int], crowds: list[int], max_moves: int, interval_ms: int
) -> None:
    """Crowd after crowd joins; each time the group is brought to balance in steps, or in one round."""
    moved: dict[PolicyName, list[int]] = {}
    counts: dict[PolicyName, list[list[int]]] = {}
    for policy in (IMMEDIATE, Incremental(max_moves=max_moves, move_interval_ms=interval_ms)):
        group = Group({f"job{number}": tasks for number, tasks in enumerate(jobs)}, policy=policy)
        for crowd in crowds:
            group.join(*[f"w{len(group.owned) + number}" for number in range(1, crowd + 1)])
            outcomes = settled(group)
            if isinstance(policy, Incremental):
                assert all(len(stopped(outcome)) <= max_moves for outcome in outcomes)
            moved.setdefault(policy.name, []).append(sum(len(stopped(outcome)) for outcome in outcomes))
            counts.setdefault(policy.name, []).extend([group.planner_counts(), group.task_counts()])
    assert moved[PolicyName.INCREMENTAL] == moved[PolicyName.IMMEDIATE]
    assert counts[PolicyName.INCREMENTAL] == counts[PolicyName.IMMEDIATE]


def settled(group: Group) -> list[GroupAssignment]:
    outcomes = [group.rebalance()]
    while changed(outcomes[-1]) or outcomes[-1].delay_ms:
        assert len(outcomes) < 300
        group.wait(outcomes[-1].delay_ms)
        outcomes.append(group.rebalance())
    return outcomes
