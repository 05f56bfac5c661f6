"""Which SQL files run after which, and which of them are one task."""

from __future__ import annotations

from graphlib import CycleError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.jobs.sql_order import connected_in_order, named_before


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("-- after: a.sql\nSELECT 1", ["a.sql"]),
        ("/* Copyright */\n\n--AFTER:a.sql, staging/b c.sql ,\n-- after: d.sql", ["a.sql", "staging/b c.sql", "d.sql"]),
        ("SELECT 1; -- after: a.sql", []),
        ("-- hereafter: a.sql\n/* after: b.sql */\nSELECT '-- after: c.sql'", []),
    ],
)
def test_the_comments_before_the_first_statement_name_what_runs_before(text: str, names: list[str]) -> None:
    assert named_before(text) == names


def test_files_that_depend_on_each_other_are_one_task_in_order_and_all_others_are_one_each() -> None:
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


@given(st.integers(0, 9).flatmap(lambda size: st.lists(st.sets(st.integers(0, 9)), min_size=size, max_size=size)))
def test_each_file_runs_once_and_after_those_that_it_names(earlier: list[set[int]]) -> None:
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
