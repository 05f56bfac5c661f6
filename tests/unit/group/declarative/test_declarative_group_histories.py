"""Whatever happens to a declarative group, it comes to rest with every task at one worker, evenly, and stays there.

Coordinator, cooperative assignor and workers together: workers join, leave with and without a word, jobs change, time
passes, other coordinators take over, at any point of an assignment that is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from coordinated import W1, W2, W3, tasks
from coordinated_group import CooperativeGroup
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks

DELAY_MS = 15_000
AT_REST_AFTER_MS = 20_000
"""Requests that a coordinator has not answered are given up within a session, and asked again."""
NAMES = st.sampled_from((W1, W2, W3, MemberId("W4")))
ALL = tasks("AC0", "AT1", "AT2", "BC0", "BT1")
JOBS = st.sampled_from((
    ALL,
    tasks("AC0", "AT1", "AT2", "AT3", "AT4", "AT5", "BC0", "BT1", "BT2"),
    tasks("BC0", "BT1", "BT2", "CC0", "CT1", "CT2", "CT3"),
    NO_TASKS,
))  # fmt: skip


def joins(group: CooperativeGroup, name: MemberId) -> None:
    if name not in group.members:
        group.joins(name)


def leaves(group: CooperativeGroup, name: MemberId, why: LeaveReason | None = None) -> None:
    if name in group.members:
        group.leaves(name, why)


def is_killed(group: CooperativeGroup, name: MemberId) -> None:
    if name in group.members:
        group.is_killed(name)


def plans(group: CooperativeGroup, configured: Tasks) -> None:
    group.at_the_shard(lambda shard: shard.read_jobs(configured))


def waits(group: CooperativeGroup, ms: int) -> None:
    group.run(ms)


def fails_over(group: CooperativeGroup, _: None = None) -> None:
    if group.shard.coordinator.groups:
        group.fail_over()


@pytest.mark.parametrize(("why", "waits"), [(LeaveReason.STOPPED, False), (None, True)])
def test_the_next_coordinator_knows_why_one_has_left(why: LeaveReason | None, waits: bool) -> None:
    """It takes over before the target is computed, and only the one before has heard it."""
    group = CooperativeGroup(max_delay_ms=DELAY_MS)
    plans(group, ALL)
    for name in (W1, W2):
        group.joins(name)
    group.run(AT_REST_AFTER_MS)
    group.leaves(W2, why)
    while W2 in group.shard.group.members:
        group.run(1)
    assert group.shard.group.target.epoch < group.shard.group.epoch
    group.fail_over()
    while group.shard.group.target.epoch < group.shard.group.epoch:
        group.run(1)
    assert bool(group.shard.group.target.delayed) is waits


Step = tuple[Callable[[CooperativeGroup, object], None], object]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.sampled_from((joins, leaves, partial(leaves, why=LeaveReason.STOPPED), is_killed)), NAMES),
    st.tuples(st.just(plans), JOBS),
    st.tuples(st.just(waits), st.one_of(st.integers(1, 12), st.integers(1, DELAY_MS), st.just(AT_REST_AFTER_MS))),
    st.tuples(st.just(fails_over), st.none()),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(steps=st.lists(STEPS, max_size=12))
def test_it_comes_to_rest_evenly(steps: list[Step]) -> None:
    group = CooperativeGroup(max_delay_ms=DELAY_MS)
    plans(group, ALL)
    for name in (W1, W2, W3):
        group.joins(name)
    group.run(AT_REST_AFTER_MS)
    for happens, to_what in steps:
        happens(group, to_what)
    group.run(AT_REST_AFTER_MS)
    joins(group, W1)
    group.run(AT_REST_AFTER_MS + DELAY_MS)
    state = group.shard.group
    assert not state.target.delayed
    epoch = int(state.epoch)
    assert state.target.epoch == epoch
    assert group.members.keys() == state.members.keys()
    for name, member in group.members.items():
        current = state.current[name]
        assert current.epoch == epoch
        assert current.assigned == state.target.of(name).tasks == member.state.owned == member.runs
    owned = [member.runs for member in group.members.values()]
    assert NO_TASKS.union(*owned) == state.configured
    for kind in (True, False):
        loads = [sum(task.is_planner is kind for task in share) for share in owned]
        assert max(loads) - min(loads) <= 1
    group.run(AT_REST_AFTER_MS)
    assert group.shard.group.epoch == epoch, "nothing has happened, so nothing changes"
