"""Operators control a job, and the output of a job becomes asset events, in a real Airflow."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from airflow_group import Group
from fleet import Fleet

from airflow_provider.state.records import ActionEvent, Halt, TaskKind, TaskState
from airflow_provider.values.model import TaskId
from demo.events import read_events

pytestmark = pytest.mark.side_by_side

TASKS = (TaskId("steered", 0), TaskId("steered", 1))


def test_a_dag_controls_a_job(group: Group, outside: Callable[..., Fleet]) -> None:
    """What each operation does in a group is tested in ``tests/integration/test_operations_group.py``."""
    workers = outside(group)
    workers.start("a.outside")
    group.submit("steered", tasks=2, entry_point="jobs:Endless", kind=TaskKind.STREAMING, limit=1)
    group.wait_for_running("steered", 2)
    run = group.start("operated", job="steered", limit=2)
    group.api.wait_for_run("operated", run)
    said = {task: group.api.xcom(group.api.task_instance("operated", run, task)) for task in ("pause", "restart")}
    assert (said["pause"]["subject"], said["pause"]["changed"]) == ("steered", True)
    assert said["restart"]["restarted"] == [str(task) for task in TASKS], "they were resumed"

    seen = group.wait_for(
        lambda seen: {seen.status.tasks[task].state for task in TASKS} == {TaskState.STOPPED}, "its tasks have stopped"
    )
    halt = seen.jobs.halt_of("steered")
    assert halt is not None
    assert (halt.halt, halt.by) == (Halt.STOPPED, f"operated.stop ({run})")
    assert seen.jobs.jobs["steered"].config == {"limit": "2"}
    events = read_events(workers.settings, group.name)
    done = [event for event in events if isinstance(event, ActionEvent) and event.by.startswith("operated.")]
    assert [(event.action, event.by) for event in done] == [
        (action, f"operated.{action} ({run})") for action in ("pause", "resume", "restart", "alter", "stop")
    ]


def test_the_output_of_a_job_starts_a_dag(group: Group, outside: Callable[..., Fleet]) -> None:
    api = group.api
    api.wait_for_dag("after_writes")
    api.unpause("after_writes")
    outside(group).start("a.outside")
    run = group.start("writes")
    api.wait_for_run("writes", run)

    def begun() -> str | None:
        runs = api.request("GET", f"/dags/{quote('after_writes')}/dagRuns")["dag_runs"]
        return next((str(each["dag_run_id"]) for each in runs), None)

    after = api.wait_until(begun, what=lambda: "no run has begun")
    api.wait_for_run("after_writes", after)
    assert api.xcom(api.task_instance("after_writes", after, "told")) == [
        {"rows": 21, "tasks": 3, "group": group.name, "job": "write", "run_key": run}
    ]
