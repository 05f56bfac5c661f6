"""Which jobs have tasks that are made ready before they move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from led_group import Group

from airflow_provider.state.records import TaskState
from airflow_provider.state.views.slots.learned_jobs import learned_jobs
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced

HANDLE = {"server": "sc://spark:15002", "session_id": "s"}


@pytest.mark.parametrize(
    ("stateful", "tasks", "learned"), [(True, "s s", {"a"}), (False, "s s", set()), (True, "s s2", set())]
)
def test_those_that_have_something_to_warm_up_and_whose_tasks_take_one_slot(
    stateful: bool, tasks: str, learned: set[str]
) -> None:
    group = Group({"w1": tasks})
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=stateful)})
    assert learned_jobs(jobs, group.status) == learned


@pytest.mark.parametrize(
    ("state", "learned"), [(TaskState.RUNNING, set()), (TaskState.PENDING, set()), (TaskState.STOPPED, {"a"})]
)
def test_not_while_a_query_lives_on_without_its_worker(state: TaskState, learned: set[str]) -> None:
    group = Group({"w1": "s s"})
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    detached = replaced(group.status.tasks[TaskId("a", 1)], state=state, handle=HANDLE)
    status = replace(group.status, tasks={**group.status.tasks, detached.task: detached})
    assert learned_jobs(jobs, status) == learned
