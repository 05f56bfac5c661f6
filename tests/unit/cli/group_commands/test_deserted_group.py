"""What is shown of a group whose workers were all killed: no record says that they are gone."""

from __future__ import annotations

import io

from airflow_values import job, jobs_snapshot, status_snapshot
from group_records import record_of
from rich.console import Console

from airflow_provider.cli.group_commands.status import render
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import ConfigOffset, TaskId, WorkerId

W1 = WorkerId("w1")
JOBS = jobs_snapshot(job(), tasks=1)


def shown(status: StatusSnapshot, *, deserted: bool) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render("g", JOBS, status.without_members() if deserted else status, wall_ms=9_000))
    return " ".join(console.export_text().split())


def test_the_coordinator_is_believed() -> None:
    record = record_of({W1: frozenset({TaskId("job", 0)})}, config_offset=ConfigOffset(1))
    status = status_snapshot(JOBS, "job", TaskState.RUNNING, record=record, worker="w1")
    there, gone = (shown(status, deserted=deserted) for deserted in (False, True))
    assert "led by w1" in there
    assert "lost" not in there
    assert "g: no worker is there: w1 got lost; last heard of at " in gone
    assert "│ w1 │ lost │" in gone
    assert "no slots: 1 task waits for 1 slot" in gone
    assert "1 slot" not in there, "it is not known how many w1 has, but that it runs the task"


def test_who_has_never_joined_did_not_get_lost() -> None:
    status = status_snapshot(JOBS, "job")
    assert shown(status, deserted=True) == shown(status, deserted=False)
