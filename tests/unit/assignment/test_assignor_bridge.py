"""A member that stands for several workers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from assignor_group import Group, changed, planners_in, started, stopped, tasks_in, tasks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment import eager_assignor
from airflow_provider.assignment.costs import Costs
from airflow_provider.values.model import WorkerId

BRIDGE = WorkerId("bridge")
JOBS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20), min_size=1, max_size=5)
WEIGHTS = st.integers(1, 6)
patient = settings(deadline=None)


def group_of(others: int, jobs: Mapping[str, int], weight: int) -> Group:
    group = Group(jobs)
    group.named = True
    group.stands_for = {BRIDGE: weight}
    group.join(BRIDGE, *(f"w{number}" for number in range(others)))
    return group


def assert_shares_are_fair(group: Group) -> None:
    """Each worker, also each that the bridge stands for, could have its share, or one more."""
    total = len(group.owned) - 1 + group.stands_for[BRIDGE]
    for kind in (planners_in, tasks_in):
        share, extras = divmod(len(kind(group.configured)), total)
        for worker, tasks in group.owned.items():
            weight = group.stands_for.get(worker, 1)
            assert share * weight <= len(kind(tasks)) <= share * weight + min(weight, extras)


@patient
@given(others=st.integers(0, 5), jobs=JOBS, weight=WEIGHTS)
def test_it_has_the_share_of_all_for_whom_it_stands(others: int, jobs: dict[str, int], weight: int) -> None:
    group = group_of(others, jobs, weight)
    group.settle()
    assert_shares_are_fair(group)


@patient
@given(others=st.integers(0, 5), jobs=JOBS, before=WEIGHTS, after=WEIGHTS)
def test_with_its_weight_only_the_difference_moves(others: int, jobs: dict[str, int], before: int, after: int) -> None:
    group = group_of(others, jobs, before)
    group.settle()
    had = dict(group.owned)
    group.stands_for[BRIDGE] = after
    outcomes = group.settle()
    assert_shares_are_fair(group)
    gained = group.owned[BRIDGE] - had[BRIDGE]
    assert not (gained and had[BRIDGE] - group.owned[BRIDGE])
    moved = sum(len(tasks - had[worker]) for worker, tasks in group.owned.items())
    assert sum(len(stopped(outcome)) for outcome in outcomes) == moved, "what stopped is what moved"
    assert sum(len(started(outcome)) for outcome in outcomes) == moved


@patient
@given(others=st.integers(1, 4), jobs=JOBS, weight=st.integers(2, 5), data=st.data())
def test_it_is_told_nothing_of_what_would_move_within_it(
    others: int, jobs: dict[str, int], weight: int, data: st.DataObject
) -> None:
    group = group_of(others, jobs, weight)
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(("weight", "join", "leave", "job", "wait"))):
            case "weight":
                group.stands_for[BRIDGE] = data.draw(WEIGHTS)
            case "join":
                group.join(f"n{group.generation}{len(group.owned)}")
            case "leave" if len(group.owned) > 1:
                group.leave(data.draw(st.sampled_from(sorted(group.owned.keys() - {BRIDGE}))))
            case "job":
                group.jobs[data.draw(st.sampled_from("abcdef"))] = data.draw(st.integers(0, 20))
            case _:
                group.wait(300_000)
        outcome = group.rebalance()
        assert outcome.target.keys() == group.owned.keys() == outcome.memory.members
        assert not outcome.revoked[BRIDGE] & outcome.assigned[BRIDGE]
        given_up = outcome.revoked[BRIDGE] & group.configured
        after = group.rebalance()
        assert not given_up & after.assigned[BRIDGE] & group.configured, "it stopped for nothing"


def test_as_one_worker_it_is_as_any_other() -> None:
    one, other = group_of(3, {"a": 9, "b": 4}, 1), group_of(3, {"a": 9, "b": 4}, 1)
    other.stands_for = {}
    assert one.settle() == other.settle()


def test_a_bridge_that_was_away_gets_its_own_again() -> None:
    group = group_of(2, {"a": 11}, 3)
    group.settle()
    had = group.leave(BRIDGE)
    group.rebalance()
    group.join(BRIDGE)
    outcome = group.rebalance()
    assert outcome.assigned[BRIDGE] == had
    assert not changed(group.rebalance())


@pytest.mark.parametrize("weight", [1, 4])
def test_dealt_out_eagerly_it_has_the_share_of_all(weight: int) -> None:
    tasks = tasks_of({"a": 11})
    dealt = eager_assignor.assign([BRIDGE, WorkerId("w")], tasks, Costs(stands_for={BRIDGE: weight}))
    assert len(dealt[WorkerId("w")]) == len(tasks) // (weight + 1)
    assert dealt[BRIDGE] | dealt[WorkerId("w")] == tasks
    if weight == 1:
        assert dealt == eager_assignor.assign([BRIDGE, WorkerId("w")], tasks)
