"""The name that a worker has by default is valid whatever its DAG and its task are called."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider.integration.memberships.worker_values import default_worker_name
from airflow_provider.integration.operator_parameters.parameters import worker_name


def named(dag_id: str, task_id: str, map_index: int = -1) -> str:
    return default_worker_name(SimpleNamespace(dag_id=dag_id, task_id=task_id, map_index=map_index))


def test_a_name_that_kafka_takes_is_that_of_the_task() -> None:
    assert named("d", "group.t", 3) == "d.group.t.3"


@pytest.mark.parametrize(
    ("dag_id", "task_id"),
    [("größe", "arbeiter"), ("d", "wörker"), ("d" * 200, "t" * 100), ("d" * 250, "t" * 250), ("ü" * 250, "t")],
    ids=["letters", "letters of the task", "long", "longest", "long letters"],
)
def test_any_other_is_spelled_so_that_it_is_valid_stable_and_its_own(dag_id: str, task_id: str) -> None:
    names = [named(dag_id, task_id, index) for index in (-1, 0, 1)]
    assert [worker_name(name) for name in names] == names
    assert len(set(names)) == 3
    assert names == [named(dag_id, task_id, index) for index in (-1, 0, 1)]


def test_two_tasks_that_are_spelled_alike_have_two_names() -> None:
    assert named("größe", "t") != named("gräße", "t")
