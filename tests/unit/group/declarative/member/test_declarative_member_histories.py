"""Members of a declarative group over a network that loses, delays and doubles: what must never happen, does not; and
when it gets better, everybody comes to have its target.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from declarative_group import TinyGroup
from declarative_script import tasks
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.machine.events import LeaveRequested
from airflow_provider.values.model import NO_TASKS, MemberId

M0, M1, M2 = map(MemberId, ("m0", "m1", "m2"))
ALL = sorted(tasks("a0 a1 b0 b1"))


def settled(group: TinyGroup) -> None:
    """Everybody has its target, and runs it."""
    group.run(60_000)
    assert group.coordinator.is_settled()
    for name, one in group.members.items():
        if one.state.phase is Phase.STABLE:
            wanted = group.coordinator.targets.get(name, NO_TASKS)
            assert (one.state.owned, one.runs) == (wanted, wanted)


def test_a_task_moves_when_it_has_stopped() -> None:
    group = TinyGroup(2, [])
    group.coordinator.set_targets({M0: tasks("a0 a1")})
    settled(group)
    group.coordinator.set_targets({M0: tasks("a0"), M1: tasks("a1")})
    settled(group)


def test_one_that_takes_long_to_stop_holds_up_nobody_else() -> None:
    group = TinyGroup(3, [])
    group.coordinator.set_targets({M0: tasks("a0 a1"), M1: tasks("b0 b1")})
    settled(group)
    group.stop_ms = 20_000
    group.coordinator.set_targets({M0: tasks("a0"), M1: tasks("b0 b1"), M2: tasks("a1")})
    group.run(5_000)
    group.stop_ms = 5
    group.coordinator.set_targets({M0: tasks("a0"), M1: tasks("b0"), M2: tasks("a1 b1")})
    group.run(10_000)
    assert group.members[M2].runs == tasks("b1")
    assert group.members[M2].state.assignment_epoch > group.members[M2].state.epoch
    settled(group)


def test_who_is_cut_off_stops_before_another_is_given_its_tasks_and_comes_back() -> None:
    group = TinyGroup(2, [])
    group.coordinator.set_targets({M0: tasks("a0"), M1: tasks("a1")})
    settled(group)
    group.fates = [None] * 10_000
    group.run(15_000)
    assert not group.members[M0].runs
    assert group.members[M0].state.owned == tasks("a0"), "it may be its own still"
    group.coordinator.expire(group.now)
    group.fates = []
    settled(group)


FATE = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 6_000), st.lists(st.integers(0, 9_000), min_size=0, max_size=2).map(tuple)),
    st.just((1, (1,))),
    st.just((1, (1,))),
)
TARGETS = st.lists(st.sampled_from([M0, M1, M2, MemberId("nobody")]), min_size=len(ALL), max_size=len(ALL))


def _retarget(owners: list[MemberId]) -> Callable[[TinyGroup], None]:
    targets = {
        member: frozenset(task for task, owner in zip(ALL, owners, strict=True) if owner == member)
        for member in (M0, M1, M2)
    }
    return lambda group: group.coordinator.set_targets(targets)


def _leave(group: TinyGroup) -> None:
    group.feed(M2, LeaveRequested(now_ms=group.now, reason="a test"))


STEP = st.one_of(
    TARGETS.map(_retarget),
    st.integers(1, 12_000).map(lambda ms: lambda group: group.run(ms)),
    st.sampled_from([M0, M1, M2]).map(lambda name: lambda group: group.coordinator.forget(name)),
    st.sampled_from([M0, M1, M2]).map(lambda name: lambda group: group.hand_over(name)),
    st.sampled_from(ALL).map(lambda task: lambda group: [group.finish(name, frozenset({task})) for name in (M0, M1)]),
    st.sampled_from(ALL).map(lambda task: lambda group: [group.drop(name, frozenset({task})) for name in (M0, M1, M2)]),
    st.sampled_from([5, 5_000]).map(lambda ms: lambda group: setattr(group, "stop_ms", ms)),
)


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(fates=st.lists(FATE, max_size=60), steps=st.lists(STEP, max_size=15), leaves=st.booleans())
def test_whatever_happens_nothing_runs_twice_or_without_a_lease_and_all_converge(
    fates: list[tuple[int, tuple[int, ...]] | None], steps: list[Callable[[TinyGroup], object]], *, leaves: bool
) -> None:
    group = TinyGroup(3, fates)
    for step in steps:
        step(group)
        group.check()
    if leaves:
        _leave(group)
    group.fates = []
    group.stop_ms = 5
    group.run(40_000)
    group.coordinator.expire(group.now)
    _retarget([M0, M1, M0, M1])(group)
    group.run(60_000)
    assert group.coordinator.is_settled()
    if leaves:
        assert group.members[M2].state.phase is Phase.LEFT
    for name in (M0, M1):
        assert group.members[name].runs == group.coordinator.targets[name]
