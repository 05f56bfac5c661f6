"""Shares in proportion to slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.assignment import eager_assignor
from airflow_provider.assignment.balancing.balance import Pool
from airflow_provider.assignment.balancing.dealing import deal_seats
from airflow_provider.assignment.balancing.portions import portions, uneven
from airflow_provider.assignment.costs import Costs
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

SLOTS = st.dictionaries(
    st.sampled_from([WorkerId(f"w{number}") for number in range(9)]), st.integers(1, 20), min_size=1
)
patient = settings(deadline=None)


def workers(**slots: int) -> dict[WorkerId, int]:
    return {WorkerId(name): number for name, number in slots.items()}


def streams(job: str, number: int) -> Tasks:
    return frozenset(TaskId(job, index) for index in range(number))


def shares(total: int, slots: Mapping[WorkerId, int]) -> dict[WorkerId, int]:
    return portions(total, slots, slots).seats(dict.fromkeys(slots, 0), total)


@pytest.mark.parametrize(
    ("total", "slots", "expected"),
    [
        (40, workers(a=2, b=4, c=8, d=16), workers(a=3, b=5, c=11, d=21)),
        (15, workers(a=2, b=4, c=8, d=16), workers(a=1, b=2, c=4, d=8)),
        (3, workers(a=1, b=100), workers(a=0, b=3)),
        (0, workers(a=1, b=2), workers(a=0, b=0)),
    ],
)
def test_the_largest_remainders_have_one_more(
    total: int, slots: Mapping[WorkerId, int], expected: Mapping[WorkerId, int]
) -> None:
    assert shares(total, slots) == expected


@patient
@given(slots=SLOTS, total=st.integers(0, 200))
def test_a_share_is_within_one_task_of_the_quota(slots: dict[WorkerId, int], total: int) -> None:
    may_have = portions(total, slots, slots)
    assert sum(may_have.whole.values()) + may_have.extras == total
    for worker, share in may_have.whole.items():
        assert 0 <= Fraction(total * slots[worker], sum(slots.values())) - share < 1


@patient
@given(slots=SLOTS, total=st.integers(0, 200), slots_of_all=st.integers(1, 9))
def test_with_equal_slots_it_is_as_if_nobody_had_told_them(
    slots: dict[WorkerId, int], total: int, slots_of_all: int
) -> None:
    some = dict(list(dict.fromkeys(slots, slots_of_all).items())[::2])
    assert portions(total, slots, some) == portions(total, slots)
    assert not uneven(slots, some)


def test_a_worker_that_has_not_told_its_slots_counts_as_the_mean() -> None:
    told = workers(a=2, b=6)
    assert portions(12, [*told, WorkerId("java")], told).whole == workers(a=2, b=6, java=4)


@patient
@given(slots=SLOTS, data=st.data())
def test_seats_are_as_many_as_tasks_and_go_to_who_lacks_them(slots: dict[WorkerId, int], data: st.DataObject) -> None:
    slots |= workers(other=21)  # so that not all are equal
    loads = {worker: data.draw(st.integers(0, 12)) for worker in slots}
    number = data.draw(st.integers(0, 60))
    may_have = portions(sum(loads.values()) + number, slots, slots)
    seats = may_have.seats(loads, number)
    assert sum(seats.values()) == number
    lacking = {worker for worker, whole in may_have.whole.items() if loads[worker] + seats[worker] < whole}
    assert not lacking or all(
        loads[worker] + seats[worker] <= may_have.whole[worker] for worker in slots if seats[worker]
    )


def test_nobody_gives_up_a_task_for_less_than_a_whole_one() -> None:
    slots = workers(a=2, b=3)  # of 4 tasks: quotas of 1.6 and 2.4
    for has in (workers(a=1, b=3), workers(a=2, b=2)):
        kept = {worker: streams(worker, number) for worker, number in has.items()}
        assert not Pool(portions(4, kept, slots), kept, {}).over
    kept = {WorkerId("a"): streams("a", 3), WorkerId("b"): streams("b", 1)}
    assert Pool(portions(4, kept, slots), kept, {}).over[WorkerId("a")] == (3, 2)


def test_each_job_is_spread_in_proportion() -> None:
    tasks = streams("x", 8) | streams("y", 4)
    dealt = deal_seats(tasks, workers(small=3, large=9), {})
    assert Counter(task.job for task in dealt[WorkerId("small")]) == {"x": 2, "y": 1}
    assert Counter(task.job for task in dealt[WorkerId("large")]) == {"x": 6, "y": 3}


@given(seats=SLOTS)
@patient
def test_the_turns_of_each_worker_are_evenly_spread(seats: dict[WorkerId, int]) -> None:
    """Whoever has the least for its seats is next; of several, the first by name."""
    turns = sorted(
        (Fraction(2 * turn + 1, 2 * of_all), worker) for worker, of_all in seats.items() for turn in range(of_all)
    )
    dealt = deal_seats(streams("x", len(turns)), seats, {})
    in_order = {task.index: worker for worker, tasks in dealt.items() for task in tasks}
    assert [in_order[index] for index in range(len(turns))] == [worker for _, worker in turns]


def test_a_worker_that_has_much_of_a_job_gets_others() -> None:
    held = {WorkerId("a"): streams("x", 8)}
    more = frozenset(TaskId("x", index) for index in range(8, 12)) | streams("y", 4)
    dealt = deal_seats(more, workers(a=4, b=4), held)
    assert Counter(task.job for task in dealt[WorkerId("a")]) == {"y": 4}
    assert Counter(task.job for task in dealt[WorkerId("b")]) == {"x": 4}


def test_eager_members_get_tasks_in_proportion_and_planners_in_turn() -> None:
    slots = workers(a=1, b=3)
    configured = streams("x", 8) | {TaskId("x", -1), TaskId("y", -1)}
    dealt = eager_assignor.assign(list(slots), frozenset(configured), Costs(slots=slots))
    assert {worker: sum(not task.is_planner for task in tasks) for worker, tasks in dealt.items()} == workers(a=2, b=6)
    assert {worker: sum(task.is_planner for task in tasks) for worker, tasks in dealt.items()} == workers(a=1, b=1)
    assert NO_TASKS.union(*dealt.values()) == configured


def test_nobody_gets_one_without_a_free_slot_while_another_has_several() -> None:
    loads, slots = workers(a=3, b=3), workers(a=6, b=3)
    assert portions(9, loads).seats(loads, 3, 1, slots) == workers(a=3, b=0)
