"""Sets of tasks in a table are the sets that were put there, and no other table is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.rounds.task_sets import TABLE, TaskSets, reader_of
from airflow_provider.values.model import HIGHEST_INDEX, PLANNER_INDEX, TaskId, Tasks, planner_of, tasks_to_json

A0, A1, A2, B0 = TaskId("a", 0), TaskId("a", 1), TaskId("a", 2), TaskId("b", 0)
TASKS = st.builds(
    TaskId,
    st.sampled_from(["a", "b", "", "größe", "a:1", "x" * 300]),
    st.integers(PLANNER_INDEX, 5) | st.integers(PLANNER_INDEX, HIGHEST_INDEX),
)


@given(st.lists(st.frozensets(TASKS)))
def test_each_set_is_read_again_by_its_number(sets: list[Tasks]) -> None:
    table = TaskSets()
    numbers = [table.number(tasks) for tasks in sets]
    read = reader_of({TABLE: json.loads(json.dumps(table.to_json()))})
    assert [read(number) for number in numbers] == sets
    assert len(set(numbers)) == len(set(sets)), "equal sets are written once"


def test_a_job_has_its_name_once_and_small_steps() -> None:
    table = TaskSets()
    numbers = [table.number(each) for each in (frozenset({A0, B0}), frozenset({A1}), frozenset({A2, planner_of("a")}))]
    assert numbers == [0, 1, 2]
    assert table.to_json() == {"sets": 3, "jobs": {"a": [2, 1, 4, 4], "b": [3]}}, "set 2, 0, 1, 2"


def test_a_document_without_a_table_has_pairs() -> None:
    assert reader_of({})(tasks_to_json({A0, B0})) == {A0, B0}
    assert reader_of({TABLE: TaskSets().to_json()})(tasks_to_json({A0, B0})) == {A0, B0}


WRONG: list[tuple[Any, str]] = [
    (5, "'sets' and 'jobs'"),
    ([], "'sets' and 'jobs'"),
    ({"sets": 1}, "'sets' and 'jobs'"),
    ({"jobs": {}}, "a number of sets"),
    ({"sets": 0, "jobs": {}}, "a number of sets"),
    ({"sets": True, "jobs": {}}, "a number of sets"),
    ({"sets": 2**40, "jobs": {}}, "a number of sets"),
    ({"sets": 1, "jobs": []}, "'sets' and 'jobs'"),
    ({"sets": 1, "jobs": {"a": 5}}, "'a' must be whole numbers"),
    ({"sets": 1, "jobs": {"a": []}}, "'a' must be whole numbers"),
    ({"sets": 1, "jobs": {"a": [1, True]}}, "'a' must be whole numbers"),
    ({"sets": 1, "jobs": {"a": [1, "1"]}}, "'a' must be whole numbers"),
    ({"sets": 1, "jobs": {"a": [1.5]}}, "'a' must be whole numbers"),
    ({"sets": 1, "jobs": {"a": [-1]}}, "'a' must ascend"),
    ({"sets": 1, "jobs": {"a": [1, 0]}}, "'a' must ascend"),
    ({"sets": 1, "jobs": {"a": [5, -1]}}, "'a' must ascend"),
    ({"sets": 3, "jobs": {"a": [3 * 2**31, 3]}}, "can't carry a task of job 'a'"),
    ({"sets": 1, "jobs": {"x" * 40_000: [1]}}, "at most 32767 bytes"),
]


@pytest.mark.parametrize(("table", "why"), WRONG)
def test_a_table_that_makes_no_sense_is_refused(table: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        reader_of({TABLE: table})


def test_the_highest_task_of_the_last_set_is_read() -> None:
    highest = TaskId("a", HIGHEST_INDEX)
    assert reader_of({TABLE: {"sets": 3, "jobs": {"a": [3 * 2**31 + 2]}}})(2) == {highest}


@pytest.mark.parametrize("number", [-1, 2, 2**70])
def test_the_number_of_no_set_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="the number of a set"):
        reader_of({TABLE: {"sets": 2, "jobs": {"a": [1]}}})(number)


def test_a_set_without_tasks_takes_nothing_however_many_there_are_said_to_be() -> None:
    assert reader_of({TABLE: {"sets": HIGHEST_INDEX, "jobs": {"a": [1]}}})(HIGHEST_INDEX - 1) == frozenset()


def test_a_small_table_does_not_become_more_tasks_than_anybody_can_go_through() -> None:
    """100 kB would be 125 million tasks of workers."""
    read = reader_of({TABLE: {"sets": 1, "jobs": {"a": [1] * 25_000}}})
    assert all(len(read(0)) == 25_000 for _field_of_a_round in range(20))
    with pytest.raises(ValueError, match="named more often than in any round"):
        list(map(read, [0] * 5_000))


def test_a_task_that_was_in_the_last_round_is_no_new_object() -> None:
    """Many new objects would start the garbage collector, which blocks all threads."""
    tasks = frozenset(TaskId("read-before", index) for index in range(PLANNER_INDEX, 9))
    table = TaskSets()
    table.number(tasks - {TaskId("read-before", 8)})
    before = reader_of({TABLE: table.to_json()})(0)
    table.number(tasks)
    after = reader_of({TABLE: table.to_json()})(1)
    assert after == tasks
    assert {id(task) for task in before} < {id(task) for task in after}


def test_a_job_of_which_few_tasks_are_left_takes_no_more_than_these() -> None:
    left = TaskId("nearly-done", HIGHEST_INDEX)
    table = TaskSets()
    table.number(frozenset({left, planner_of("nearly-done")}))
    assert reader_of({TABLE: table.to_json()})(0) == {planner_of("nearly-done"), left}
