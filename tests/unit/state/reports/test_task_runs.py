"""How long tasks run, or did run."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_values import job, jobs_snapshot, status_snapshot

from airflow_provider.state.records import SparkWork, StreamProgress, TaskState, TaskStatus
from airflow_provider.state.records.times import time_in_words
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.reports.task_runs import run_to_json
from airflow_provider.values.lag import Lag
from airflow_provider.values.model import LARGEST_NUMBER, Epoch, TaskId, WorkerId

RUNNING, FINISHED, STOPPED, PENDING = TaskState.RUNNING, TaskState.FINISHED, TaskState.STOPPED, TaskState.PENDING


def said(state: TaskState, **more: Any) -> TaskStatus:
    return TaskStatus(task=TaskId("job", 0), state=state, epoch=Epoch(1), worker=WorkerId("w"), **more)


@pytest.mark.parametrize(
    ("state", "started_at_ms", "ended_at_ms", "seconds"),
    [
        (RUNNING, 1_000, None, 9.0),
        (RUNNING, 11_000, None, 0.0),  # its host's clock is ahead
        (RUNNING, None, None, None),
        (FINISHED, 1_000, 3_250, 2.25),
        (STOPPED, 1_000, 2_000, 1.0),
        (STOPPED, 1_000, None, None),
        (PENDING, None, None, None),
    ],
)
def test_what_runs_counts_until_now_and_what_has_ended_until_then(
    state: TaskState, started_at_ms: int | None, ended_at_ms: int | None, seconds: float | None
) -> None:
    told = said(state, started_at_ms=started_at_ms, finished_at_ms=ended_at_ms)
    assert run_to_json(told, 10_000)["seconds"] == seconds


def test_a_report_has_each_task_that_somebody_has_had() -> None:
    jobs = jobs_snapshot(job(), tasks=3)
    report = JobReport.of("job", jobs, status_snapshot(jobs, "job", FINISHED, RUNNING))
    assert report is not None
    runs = report.to_json(now_ms=10_000)["runs"]
    assert {index: run["state"] for index, run in runs.items()} == {"0": "finished", "1": "running"}


def test_of_a_stream_its_last_batch_is_told() -> None:
    progress = StreamProgress(batch=7, rows_per_second=12.5, at_ms=9_000, asked_at_ms=8_000, lag=Lag(offsets=57))
    told = run_to_json(said(RUNNING, started_at_ms=1_000, progress=progress), 10_000)
    assert (told["batch"], told["rows_per_second"], told["seconds"]) == (7, 12.5, 9.0)
    assert told["progress"] == "batch 7, 12.5 rows/s, 57 offsets behind 2.0 s ago"
    assert told["last_batch_at"] == "1970-01-01T00:00:08+00:00"
    assert told["lag"] == {"known": "exactly", "offsets": 57}
    ended = run_to_json(said(STOPPED, started_at_ms=1_000, finished_at_ms=9_500, progress=progress), 10_000)
    assert "lag" not in ended, "nobody reads it now"


def test_of_a_bounded_task_is_told_what_its_spark_jobs_have_done() -> None:
    work = SparkWork(stages=2, stages_done=1, tasks=9, tasks_done=8, rows_read=0, rows_written=0, at_ms=9_000)
    told = run_to_json(said(RUNNING, started_at_ms=1_000, work=work), 10_000)
    assert (told["stages"], told["stages_done"], told["tasks"], told["tasks_done"]) == (2, 1, 9, 8)
    assert told["progress"] == "1 of 2 stages, 8 of 9 Spark tasks"
    assert "at_ms" not in told


def test_a_time_that_is_in_no_calendar_is_shown_as_the_last_one() -> None:
    """Records with such times can be read: nothing but what is shown is made of them."""
    told = said(RUNNING, started_at_ms=LARGEST_NUMBER)
    assert run_to_json(told, 10_000)["started_at"] == "9999-12-31T23:59:59+00:00"
    assert time_in_words(LARGEST_NUMBER) == "9999-12-31 23:59:59 UTC"
