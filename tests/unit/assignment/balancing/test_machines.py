"""Work on machines: large tasks are dealt out singly, small ones together, and tasks that are in time stay at home."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from heapq import heapreplace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment.balancing.machines import (
    NOWHERE,
    Slots,
    Work,
    after,
    area,
    deal,
    in_time,
    late,
    leave_to_begin,
    level,
)

pytestmark = pytest.mark.slow

patient = settings(deadline=None)
_ROUNDED = 1 + 1e-9


@st.composite
def drawn_work(draw: st.DrawFn, wide: tuple[int, ...] = (1, 1, 1, 2, 4)) -> list[Work]:
    """The longest first: few and many, alike and with a heavy tail.

    :param wide: how many slots they take
    """
    seed = random.Random(draw(st.integers(0, 1 << 32)))
    number, shape = draw(st.integers(1, 1_500)), draw(st.sampled_from([1.1, 1.3, 3, 50]))
    step = draw(st.sampled_from([1, 0.001]))
    costs = sorted((round(seed.paretovariate(shape) / step) * step for _ in range(number)), reverse=True)
    return [(cost, seed.choice(wide)) for cost in costs]


narrow_work = drawn_work((1,))


def narrow(*costs: float) -> list[Work]:
    return [(cost, 1) for cost in costs]


@st.composite
def drawn_workers(draw: st.DrawFn) -> list[Slots]:
    """With slots that are busy for a while, as heaps, and some that have none."""
    busy = st.lists(st.floats(0, 500) | st.just(0.0), max_size=3)
    workers = [sorted(slots) for slots in draw(st.lists(busy, min_size=1, max_size=6))]
    return workers if any(workers) else [[0.0]]


def ends(work: Sequence[Work], workers: Sequence[Slots], places: Sequence[int]) -> list[Slots]:
    """When each worker is done, if it begins with the longest task."""
    mine: list[list[Work]] = [[] for _ in workers]
    for task, place in zip(work, places, strict=True):
        if place != NOWHERE:
            mine[place].append(task)
    return [after(slots, of_worker) for slots, of_worker in zip(workers, mine, strict=True)]


def one_by_one(work: Sequence[Work], workers: Sequence[Slots]) -> float:
    """When plain LPT ends."""
    free_at = sorted(at for slots in workers for at in slots)
    for cost, _ in work:
        heapreplace(free_at, free_at[0] + cost)
    return max(free_at)


def last(workers: Sequence[Slots]) -> float:
    return max(at for slots in workers for at in slots)


@patient
@given(narrow_work, drawn_workers())
def test_all_tasks_are_dealt_out_and_end_when_lpt_ends(work: list[Work], workers: list[Slots]) -> None:
    """Or at the level, and two of what is small after it: where a slot is full, and where a worker begins with the
    longest. So from idle machines it is at most 4/3 of the shortest time there is.
    """
    places = deal(work, workers)
    assert len(places) == len(work)
    assert all(workers[place] for place in places), "who never has a slot free is given nothing"
    done = last(ends(work, workers, places))
    assert done <= max(one_by_one(work, workers), 1.02 * level(workers, area(work))) * _ROUNDED


def begins(slots: Slots, wide: int) -> float:
    """When this many slots are free, or all, if there are fewer."""
    return sorted(slots)[:wide][-1]


@patient
@given(drawn_work(), drawn_workers())
def test_a_task_with_several_slots_goes_where_they_are_free_first(work: list[Work], workers: list[Slots]) -> None:
    places = deal(work, workers)
    assert all(workers[place] for place in places)
    small = 0.01 * level(workers, area(work))
    slots_of = list(workers)
    for (cost, wide), place in zip(work, places, strict=True):
        if cost >= small or wide > 1:
            first = min(begins(slots, wide) for slots in slots_of if slots)
            assert begins(slots_of[place], wide) == first
            slots_of[place] = after(slots_of[place], [(cost, wide)])


def test_a_task_takes_its_slots_together_and_is_not_overtaken() -> None:
    assert sorted(after([0.0, 0.0, 0.0], [(5.0, 1), (4.0, 3), (1.0, 1)])) == [9.0, 9.0, 10.0]
    assert sorted(after([0.0, 3.0], [(4.0, 9)])) == [7.0, 7.0], "where there are fewer it takes them all"
    assert after([2.0], [(4.0, 2)]) == [6.0]


def test_small_tasks_are_spread_like_large_ones() -> None:
    """No worker gets all short tasks, and with them all the starts."""
    costs = sorted((random.Random(1).paretovariate(1.3) for _ in range(10_000)), reverse=True)
    places = deal(narrow(*costs), [[0.0, 0.0] for _ in range(10)])
    assert max(Counter(places[8_000:]).values()) < 2 * 2_000 / 10


@pytest.mark.parametrize("cost", [0.0, 1e-12])
def test_tasks_that_take_no_time_are_dealt_out_too(cost: float) -> None:
    workers = [[0.7], [0.7], [0.7]]  # a third of three times as much is less
    assert len(deal(narrow(5.0, *[cost] * 7), workers)) == 8
    assert len(deal(narrow(*[cost] * 7), workers)) == 7


@patient
@given(drawn_work(), drawn_workers(), st.floats(0.5, 2), st.integers(0, 1 << 32))
def test_tasks_that_stay_are_done_in_time(work: list[Work], workers: list[Slots], much: float, seed: int) -> None:
    homes = random.Random(seed).choices([NOWHERE, *range(len(workers))], k=len(work))
    latest = much * level(workers, area(work))
    stay = in_time(work, homes, workers, latest)
    assert all(place in {home, NOWHERE} for place, home in zip(stay, homes, strict=True))
    nothing = [NOWHERE] * len(work)
    before = ends(work, workers, nothing)
    for slots, idle in zip(ends(work, workers, stay), before, strict=True):
        assert all(at <= latest * _ROUNDED or at in idle for at in slots)


@patient
@given(drawn_work(), drawn_workers(), st.integers(0, 1 << 32))
def test_all_tasks_stay_if_there_are_no_new_ones_and_nobody_is_late(
    work: list[Work], workers: list[Slots], seed: int
) -> None:
    with_slots = [worker for worker, slots in enumerate(workers) if slots]
    homes = random.Random(seed).choices(with_slots, k=len(work))
    assert in_time(work, homes, workers, last(ends(work, workers, homes)) * _ROUNDED) == homes


def test_tasks_that_would_end_late_leave_for_slots_that_are_idle() -> None:
    workers = [[10.0], [0.0, 0.0, 9.0], []]
    work, homes = [(5.0, 1), (4.0, 4), (3.0, 2), (2.0, 1), (1.0, 1)], [0, 0, 0, 2, NOWHERE]
    places = [0, 0, 0, 2, 1]
    assert leave_to_begin(work, homes, places, workers, 12.0) == [NOWHERE, 0, 0, 2, NOWHERE], "the longest goes first"
    assert leave_to_begin(work, homes, places, workers, 16.0) == [0, 0, 0, NOWHERE, NOWHERE], "it ends in time at home"
    assert leave_to_begin(work, homes, places, [[10.0], [0.0], []], 12.0) == homes, "no slot is left"


def test_late_work_is_work_after_the_latest_time() -> None:
    assert late([0.0, 0.0], narrow(5.0, 4.0, 3.0), 6.0) == 1.0
    assert late([0.0], narrow(5.0, 4.0), 6.0) == 3.0
    assert late([9.0], narrow(1.0), 6.0) == 1.0, "what runs is late anyway"
    assert late([], [(5.0, 1), (4.0, 2)], 6.0) == 13.0, "what never starts is late with all of it"
    assert late([0.0, 0.0], [(5.0, 1), (4.0, 2)], 6.0) == 6.0, "each slot that is taken counts"
