from __future__ import annotations

import pytest

from airflow_provider.assignment import eager_assignor
from airflow_provider.values.model import TaskId, WorkerId, planner_of

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")


def test_planners_are_dealt_first_and_tasks_go_on_where_they_ended() -> None:
    configured = frozenset({planner_of("a"), TaskId("a", 0), TaskId("a", 1), planner_of("b"), TaskId("b", 0)})
    assert eager_assignor.assign([W3, W1, W2], configured) == {
        W1: {planner_of("a"), TaskId("a", 1)},
        W2: {planner_of("b"), TaskId("b", 0)},
        W3: {TaskId("a", 0)},
    }


def test_tasks_go_by_number_and_not_by_its_digits() -> None:
    configured = frozenset(TaskId("a", index) for index in range(12))
    assert eager_assignor.assign([W1, W2], configured)[W1] == {TaskId("a", index) for index in range(0, 12, 2)}


def test_every_member_has_an_entry() -> None:
    assert eager_assignor.assign([W1, W2], frozenset({planner_of("a")})) == {W1: {planner_of("a")}, W2: set()}


def test_there_must_be_a_member() -> None:
    with pytest.raises(ValueError, match="at least one member"):
        eager_assignor.assign([], frozenset())
