"""Who is behind, on the page."""

from __future__ import annotations

from dataclasses import replace

from airflow_values import job, jobs_snapshot, status_snapshot
from group_records import record_of

from airflow_provider.state.records import StreamProgress, TaskKind, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.records.status_topic.stream_lag import CURRENT_MS
from airflow_provider.ui.views.lags import LagLine
from airflow_provider.ui.views.tasks import TaskOrder, TaskQuery, found_tasks, task_detail, task_page
from airflow_provider.ui.views.workers import workers
from airflow_provider.values.lag import Lag
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

ASKED_MS = 1_000_000
W1 = WorkerId("w1")
LAGS = (
    Lag(offsets=0),
    Lag(offsets=3_338),
    Lag(silent=1),
    Lag(files=5_000, bytes=7),
    Lag(bytes=9_000),
)
JOBS = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=len(LAGS) + 1)
TASKS = tuple(TaskId("job", index) for index in range(len(LAGS) + 1))
RUNNING = status_snapshot(
    JOBS,
    "job",
    *(TaskState.RUNNING for _ in LAGS),
    TaskState.PENDING,
    record=record_of({W1: frozenset(TASKS)}, config_offset=ConfigOffset(1)),
    worker="w1",
)


def reading(task: TaskId, lag: Lag) -> TaskStatus:
    asked_at_ms = ASKED_MS + task.index
    progress = StreamProgress(batch=7, rows_per_second=3.0, at_ms=ASKED_MS, asked_at_ms=asked_at_ms, lag=lag)
    return replaced(RUNNING.tasks[task], progress=progress)


STATUS = replace(
    RUNNING,
    workers={W1: WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(5), slots=9)},
    tasks={**RUNNING.tasks, **{task: reading(task, lag) for task, lag in zip(TASKS, LAGS, strict=False)}},
)


def last(index: int) -> TaskStatus:
    return STATUS.tasks[TASKS[index]]


def test_those_with_most_to_read_come_first_then_those_of_which_least_is_known() -> None:
    query = TaskQuery(order=TaskOrder.BEHIND, descending=True)
    page = task_page(found_tasks(JOBS, STATUS), query, STATUS)
    assert [line.index for line in page.lines] == [3, 1, 4, 0, 2, 5]
    again = task_page(found_tasks(JOBS, STATUS), replace(query, descending=False), STATUS)
    assert [line.index for line in again.lines] == [5, 2, 0, 4, 1, 3]


def test_the_browser_is_told_what_is_true_now_and_what_once_it_is_old() -> None:
    assert LagLine.of(last(0)) == LagLine(
        words="not behind", until_ms=ASKED_MS + CURRENT_MS, then="lag unknown", asked_at_ms=ASKED_MS
    )
    behind = LagLine.of(last(1))
    assert behind is not None
    assert (behind.words, behind.then) == ("3,338 offsets behind", "at least 3,338 offsets behind")
    stalled = LagLine.of(replaced(last(1), stalled_since_ms=ASKED_MS))
    assert stalled is not None
    assert (stalled.words, stalled.until_ms) == (stalled.then, 0) == ("at least 3,338 offsets behind", 0)
    assert LagLine.of(last(5)) is LagLine.of(None) is None


def test_it_stands_beside_what_else_is_said_of_the_stream() -> None:
    """And not in it: the browser could not change it there."""
    (line, *_) = task_page(found_tasks(JOBS, STATUS), TaskQuery(), STATUS).lines
    assert (line.progress, line.lag) == ("batch 7, 3 rows/s", LagLine.of(last(0)))
    detail = task_detail(TASKS[0], JOBS, STATUS, ())
    assert detail is not None
    assert detail.line == line
    (worker,) = workers(JOBS, STATUS)
    assert (worker.running[0].progress, worker.running[0].lag) == (line.progress, line.lag)
