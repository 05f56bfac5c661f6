"""Streams that differ in the slots that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment.balancing import pools
from airflow_provider.assignment.balancing.by_size import OfSize, Room, pools_by_size
from airflow_provider.assignment.balancing.pools import above_shares
from airflow_provider.assignment.balancing.portions import portions
from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import GroupAssignment, Memory, Round
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.assignment.shares import grouped
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

A, B, C = (WorkerId(name) for name in "abc")


def streams(job: str, number: int) -> Tasks:
    return frozenset(TaskId(job, index) for index in range(number))


ONES, TWOS, FOUR = streams("one", 4), streams("two", 3), streams("four", 1)
THREE = frozenset(sorted(ONES)[:3])
LARGE = {**dict.fromkeys(TWOS, 2), **dict.fromkeys(FOUR, 4)}


def round_of(owned: Mapping[WorkerId, Tasks], slots: Mapping[WorkerId, int], running: Tasks, new: Tasks) -> Round:
    return Round(
        now_ms=0,
        generation=GenerationId(2),
        last_completed=GenerationId(1),
        configured=new.union(*owned.values()),
        owned=owned,
        revocation_rank=dict.fromkeys(running, 1),
        named=frozenset(owned),
        costs=Costs(slots=slots, large=grouped(LARGE.items())),
    )


def one_round(
    owned: Mapping[WorkerId, Tasks],
    slots: Mapping[WorkerId, int],
    *,
    waiting: Tasks = NO_TASKS,
    new: Tasks = NO_TASKS,
) -> GroupAssignment:
    running = NO_TASKS.union(*owned.values()) - waiting
    return assign(round_of(owned, slots, running, new), Memory(), policy=IMMEDIATE)


def test_the_largest_comes_first_and_the_small_ones_fill_what_is_left() -> None:
    target = one_round({A: NO_TASKS, B: NO_TASKS}, {A: 4, B: 4}, new=ONES | FOUR).target
    assert set(target.values()) == {ONES, FOUR}


def test_one_goes_where_its_slots_are_free() -> None:
    """Not to where the most is lacking, since there it would get fewer."""
    owned = {A: frozenset(sorted(ONES)[:1]), B: frozenset(sorted(ONES)[1:])}
    assert one_round(owned, {A: 2, B: 5}, new=frozenset([min(TWOS)])).assigned == {A: NO_TASKS, B: {min(TWOS)}}


def test_one_that_fits_nowhere_goes_where_it_gets_the_most() -> None:
    owned = {A: frozenset(sorted(ONES)[:1]), B: frozenset(sorted(ONES)[1:])}
    assert one_round(owned, {A: 4, B: 4}, new=FOUR).assigned[A] == FOUR


def test_one_that_waits_moves_to_where_it_can_start() -> None:
    first, second, _ = sorted(TWOS)
    one = frozenset([min(ONES)])
    for free, stops in ((1, {second}), (0, NO_TASKS)):
        owned = {A: frozenset([first, second]), B: one}
        assert one_round(owned, {A: 2, B: 1 + free}, waiting=frozenset([second])).revoked[A] == stops


@pytest.mark.parametrize(("others", "stops"), [(0, 1), (1, 0), (2, 0)], ids=["4 and 0", "4 and 1", "4 and 2"])
def test_one_that_runs_moves_only_for_a_whole_step_of_balance(others: int, stops: int) -> None:
    twos, beside = frozenset(sorted(TWOS)[:2]), frozenset(sorted(ONES)[:others])
    sizes = [OfSize(1, {A: NO_TASKS, B: beside}, {}, NO_TASKS), OfSize(2, {A: twos, B: NO_TASKS}, {}, NO_TASKS)]
    slots = {A: 4, B: 4}
    of_each = pools_by_size(sizes, portions(4 + others, slots), Room(slots), {}, NO_TASKS)
    assert [pool.stops for pool in of_each] == [0, stops]


def test_one_that_runs_is_not_stopped_because_others_wait_behind_it() -> None:
    waiting, slots = frozenset([TaskId("four", 1)]), {A: 4, B: 8}
    of_each = pools_by_size(
        [
            OfSize(1, {A: ONES, B: NO_TASKS}, {}, NO_TASKS),
            OfSize(4, {A: waiting, B: FOUR}, {}, NO_TASKS),
        ],
        portions(12, slots, slots),
        Room(slots),
        {},
        waiting,
    )
    assert [pool.stops for pool in of_each] == [0, 1], "what waits moves, and then nothing has to stop"


@pytest.mark.parametrize(
    ("others", "stops"),
    [(NO_TASKS, THREE), (frozenset(sorted(TWOS)[:2]), NO_TASKS)],
    ids=["slots for all", "too few"],
)
def test_those_beside_one_that_has_fewer_than_it_wants_move_at_once_if_they_start_elsewhere(
    others: Tasks, stops: Tasks
) -> None:
    assert one_round({A: THREE | FOUR, B: others}, {A: 4, B: 4}).revoked == {A: stops, B: NO_TASKS}


def test_streams_of_the_same_size_count_as_ones_on_as_many_places() -> None:
    """A worker with one slot starts one stream, as does one with three."""
    owned = {A: NO_TASKS, B: NO_TASKS, C: NO_TASKS}
    target = one_round(owned, {A: 1, B: 2, C: 3}, new=TWOS).target
    assert [len(tasks) for tasks in target.values()] == [1, 1, 1]


def test_a_stream_larger_than_all_workers_takes_all_of_one() -> None:
    target = one_round({A: NO_TASKS, B: NO_TASKS}, {A: 2, B: 2}, new=FOUR | frozenset(sorted(ONES)[:2])).target
    assert FOUR in target.values()


@pytest.mark.parametrize(
    ("shares", "above"),
    [({A: FOUR, B: ONES}, 0), ({A: frozenset(sorted(TWOS)[:2]), B: NO_TASKS}, 1)],
    ids=["one of four beside four of one", "two of two beside none"],
)
def test_what_is_above_the_shares_is_counted_in_slots(shares: Mapping[WorkerId, Tasks], above: int) -> None:
    running = NO_TASKS.union(*shares.values())
    assert above_shares(round_of(shares, {A: 4, B: 4}, running, NO_TASKS), shares) == above


@given(data=st.data(), slots=st.lists(st.integers(0, 6), min_size=2, max_size=3), size=st.integers(2, 3))
@settings(deadline=None)
def test_where_nothing_is_to_be_done_the_round_is_as_if_all_pools_were_made(
    data: st.DataObject, slots: list[int], size: int
) -> None:
    workers = [A, B, C][: len(slots)]
    places = data.draw(st.lists(st.tuples(st.sampled_from(workers), st.booleans(), st.booleans()), max_size=9))
    tasks = [TaskId("stream", index) for index in range(len(places))]
    owned = {
        worker: frozenset(task for task, at in zip(tasks, places, strict=True) if at[0] == worker) for worker in workers
    }
    large = frozenset(task for task, (_, is_large, _) in zip(tasks, places, strict=True) if is_large)
    running = frozenset(task for task, (*_, runs) in zip(tasks, places, strict=True) if runs)
    known = {worker: number for worker, number in zip(workers, slots, strict=True) if number}
    now = replace(round_of(owned, known, running, NO_TASKS), costs=Costs(slots=known, large={size: large}))
    outcome = assign(now, Memory(), policy=IMMEDIATE)
    with patch.object(pools.SharedWork, "is_at_rest", new=False):
        assert assign(now, Memory(), policy=IMMEDIATE) == outcome
