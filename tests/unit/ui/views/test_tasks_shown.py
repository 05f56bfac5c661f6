"""On which server a detached task runs, and how many slots a task takes, as the command line and the page show it."""

from __future__ import annotations

import io
from dataclasses import replace

from airflow_values import job, jobs_snapshot, status_snapshot
from group_records import record_of
from rich.console import Console

from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import render
from airflow_provider.kafka.group_requests.messages import DescribedMember, GroupDescription
from airflow_provider.state.records import StreamProgress, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.views.tasks import TaskQuery, found_tasks, task_detail, task_page
from airflow_provider.ui.views.workers import workers
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

W1 = WorkerId("w1")
RUNS, WAITS = TaskId("job", 0), TaskId("job", 1)
JOBS = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=2, slots=3)
HANDLE = {"server": "sc://spark:15002/;user_id=cospark;use_ssl=true", "session_id": "s"}


def a_group() -> StatusSnapshot:
    """Of its two tasks one runs; of the other one it is not known whether it has ended where it ran before."""
    record = record_of({W1: frozenset({RUNS, WAITS})}, config_offset=ConfigOffset(1))
    status = status_snapshot(JOBS, "job", TaskState.RUNNING, TaskState.PENDING, record=record, worker="w1")
    tasks = {task: replaced(last, handle=HANDLE) for task, last in status.tasks.items()}
    far = StreamProgress(batch=7, rows_per_second=3.0, at_ms=1_000)
    tasks[RUNS] = replaced(tasks[RUNS], progress=far, started_at_ms=0)
    said = WorkerStatus(worker=W1, state=WorkerPhase.DEFERRED, epoch=Epoch(5), slots=3)
    return replace(status, workers={W1: said}, tasks=tasks)


STATUS = a_group()


def test_among_the_tasks_of_a_group() -> None:
    member = DescribedMember(
        member_id=MemberId("m"),
        group_instance_id=W1,
        client_id="",
        client_host="",
        metadata=b"",
        assignment=b"",
    )
    group = GroupDescription(
        error=KafkaErrorCode.NONE, group_id="g", state="Stable", protocol_type="connect", protocol="", members=(member,)
    )
    about = describe(group, JOBS, STATUS)
    assert (about["tasks"]["job:0"]["server"], about["tasks"]["job:0"]["slots"]) == ("sc://spark:15002", 3)
    runs, waits = as_lines(about)[-2:]
    assert runs.startswith("  task job:0, 3 slots: running at w1, detached on sc://spark:15002, attempt 1, since ")
    assert runs.endswith(", batch 7, 3 rows/s, lag unknown")
    assert waits == "  task job:1, 3 slots: pending at w1, attempt 1"


def test_in_the_description_of_a_job() -> None:
    described = JobDescription.of("job", JOBS, STATUS)
    assert described is not None
    assert described.lines(now_ms=9_000)[-2:] == [
        "  job:0, 3 slots: running on w1, detached on sc://spark:15002, attempt 1, batch 7, 3 rows/s, lag unknown",
        "  job:1, 3 slots: pending on w1, attempt 1",
    ]


def test_in_the_status_of_a_group() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render("g", JOBS, STATUS, wall_ms=9_000))
    shown = " ".join(console.export_text().split())
    assert "running (detached on sc://spark:15002): job:0 (9.0 s, 3 slots, batch 7, 3 rows/s, lag unknown)" in shown
    assert "pending: job:1 (3 slots)" in shown


def test_on_the_page() -> None:
    (line,) = workers(JOBS, STATUS)
    assert [(task.slots, task.server) for task in line.running] == [(3, "sc://spark:15002")]
    page = task_page(found_tasks(JOBS, STATUS), TaskQuery(), STATUS)
    assert [(task.slots, task.server) for task in page.lines] == [(3, "sc://spark:15002"), (3, "")]
    detail = task_detail(RUNS, JOBS, STATUS, ())
    assert detail is not None
    assert detail.line == page.lines[0]


def test_a_worker_is_heard_of_when_it_tells_how_far_its_tasks_are() -> None:
    silent = replace(STATUS, workers={W1: replace(STATUS.workers[W1], at_ms=900)})
    assert [line.heard_ms for line in workers(JOBS, silent)] == [1_000]
    later = replace(STATUS, workers={W1: replace(STATUS.workers[W1], at_ms=1_100)})
    assert [line.heard_ms for line in workers(JOBS, later)] == [1_100]


def test_a_detached_task_runs_while_it_moves() -> None:
    """Nobody has stopped it, and its next worker has not written of it yet."""
    assert STATUS.group is not None
    w2 = WorkerId("w2")
    moved = replace(STATUS, group=record_of({w2: frozenset({RUNS, WAITS})}, epoch=6, config_offset=ConfigOffset(1)))
    runs, waits = task_page(found_tasks(JOBS, moved), TaskQuery(), moved).lines
    assert (runs.state, runs.attempt, runs.worker) == (TaskState.RUNNING, 1, "w1")
    assert (waits.state, waits.worker) == (TaskState.PENDING, "w2")
    attached = {**moved.tasks, RUNS: replaced(moved.tasks[RUNS], handle=None)}
    (line, _) = task_page(found_tasks(JOBS, replace(moved, tasks=attached)), TaskQuery(), moved).lines
    assert (line.state, line.attempt, line.worker) == (TaskState.PENDING, 2, "w2")


def test_what_takes_one_slot_and_is_not_detached_is_shown_as_before() -> None:
    plain = jobs_snapshot(job(), tasks=1)
    status = status_snapshot(plain, "job", TaskState.RUNNING, record=record_of({W1: frozenset({RUNS})}), worker="w1")
    (line,) = task_page(found_tasks(plain, status), TaskQuery(), status).lines
    assert (line.slots, line.server) == (1, "")
    described = JobDescription.of("job", plain, status)
    assert described is not None
    assert described.lines(now_ms=9_000)[-1] == "  job:0: running on w1, attempt 1"
