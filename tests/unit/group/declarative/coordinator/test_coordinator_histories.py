"""The coordinator and members as they are, in virtual time, over a network that loses, delays and doubles: what must
never happen, does not; and when it gets better, everybody comes to have its target.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from coordinated_group import CoordinatedGroup, Fate
from declarative_script import tasks
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.machine.events import LeaveRequested
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks

M0, M1, M2 = map(MemberId, ("m0", "m1", "m2"))
ALL = sorted(tasks("a0 a1 a2 b0 b1 b2"))
FATE = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 6_000), st.lists(st.integers(0, 9_000), min_size=0, max_size=2).map(tuple)),
    st.just((1, (1,))),
    st.just((1, (1,))),
)
Step = Callable[[CoordinatedGroup], object]


def _jobs(configured: Tasks) -> Step:
    return lambda group: group.at_the_shard(lambda shard: shard.read_jobs(configured))


def _sessions(ms: int) -> Step:
    return lambda group: group.at_the_shard(lambda shard: shard.configure(session_timeout_ms=ms))


STEP: st.SearchStrategy[Step] = st.one_of(
    st.frozensets(st.sampled_from(ALL)).map(_jobs),
    st.sampled_from([8_000, 10_000, 20_000]).map(_sessions),
    st.integers(1, 12_000).map(lambda ms: lambda group: group.run(ms)),
    st.just(CoordinatedGroup.fail_over),
    st.sampled_from([M0, M1, M2]).map(lambda name: lambda group: group.hand_over(name)),
    st.sampled_from([5, 5_000]).map(lambda ms: lambda group: setattr(group, "stop_ms", ms)),
)


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(fates=st.lists(FATE, max_size=60), steps=st.lists(STEP, max_size=15), leaves=st.booleans())
def test_whatever_happens_nothing_runs_twice_or_without_a_lease_and_all_converge(
    fates: list[Fate], steps: list[Step], *, leaves: bool
) -> None:
    group = CoordinatedGroup(3, fates)
    _jobs(frozenset(ALL))(group)
    for step in steps:
        step(group)
        group.check()
    if leaves:
        group.feed(M2, LeaveRequested(now_ms=group.now, reason="a test"))
    group.fates = []
    group.stop_ms = 5
    group.run(30_000)
    _jobs(frozenset(ALL))(group)
    group.run(90_000)
    assert group.is_settled
    assert (group.members[M2].state.phase is Phase.LEFT) == leaves
    stay = [M0, M1] if leaves else [M0, M1, M2]
    assert {one: group.members[one].runs for one in stay} == {
        one: group.shard.group.target.of(one).tasks for one in stay
    }  # fmt: skip
    assert NO_TASKS.union(*(group.members[one].runs for one in stay)) == frozenset(ALL)


def test_nothing_is_lost_and_it_takes_less_than_an_interval() -> None:
    """Everybody joins, it is computed, tasks are stopped and started: each time it is pushed, not asked for."""
    group = CoordinatedGroup(3, [])
    _jobs(frozenset(ALL))(group)
    group.run(200)
    assert group.is_settled
    assert NO_TASKS.union(*(one.runs for one in group.members.values())) == frozenset(ALL)
