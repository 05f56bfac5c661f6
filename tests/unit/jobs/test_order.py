"""Which parts of a job run after which, and which of them are one task."""

from __future__ import annotations

from graphlib import CycleError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.jobs.order import connected_in_order


def test_parts_that_depend_on_each_other_are_one_task_in_order_and_all_others_are_one_each() -> None:
    before = {"z": [], "report": ["orders", "items"], "items": ["z"], "orders": [], "alone": [], "b": ["c"], "c": []}
    assert connected_in_order(before) == [["alone"], ["c", "b"], ["orders", "z", "items", "report"]]


@pytest.mark.parametrize(
    ("before", "circle"),
    [({"a": ["a"]}, {"a"}), ({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": []}, {"a", "b", "c"})],
)
def test_a_circle_is_refused(before: dict[str, list[str]], circle: set[str]) -> None:
    with pytest.raises(CycleError) as refused:
        connected_in_order(before)
    assert set(refused.value.args[1]) == circle


def test_a_long_chain_takes_about_as_many_steps_as_it_has_parts() -> None:
    compared = 0

    class Name(str):
        """An algorithm looks at names by comparing them."""

        __slots__ = ()

        def __lt__(self, other: str) -> bool:
            nonlocal compared
            compared += 1
            assert compared < 50 * length, "it compares each with each"
            return super().__lt__(other)

    length = 5_000
    names: list[str] = [Name(number) for number in range(length)]
    before = {name: names[max(0, at - 1) : at] for at, name in enumerate(names)}
    assert connected_in_order(before) == [names]


@given(st.integers(0, 9).flatmap(lambda size: st.lists(st.sets(st.integers(0, 9)), min_size=size, max_size=size)))
def test_each_part_runs_once_and_after_those_that_it_names(earlier: list[set[int]]) -> None:
    before = {str(at): [str(each) for each in some if each < at] for at, some in enumerate(earlier)}
    tasks = connected_in_order(before)
    place = {name: (number, at) for number, task in enumerate(tasks) for at, name in enumerate(task)}
    assert sorted(name for task in tasks for name in task) == sorted(before)
    for name, others in before.items():
        for other in others:
            assert place[other][0] == place[name][0]
            assert place[other][1] < place[name][1]
    for task in tasks:
        assert all(
            any(name in before[other] or other in before[name] for other in task if other != name)
            for name in task
            if len(task) > 1
        )
