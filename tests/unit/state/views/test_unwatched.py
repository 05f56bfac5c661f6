"""What is said of tasks whose worker is gone: the same everywhere, and as much as is known."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import job, jobs_snapshot, status_snapshot
from group_records import record_of
from rich.console import Console

from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import render
from airflow_provider.kafka.group_requests.messages import GroupDescription
from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.gauges import gauges
from airflow_provider.state.operations.deciding import decide
from airflow_provider.state.operations.operations import HaltJob
from airflow_provider.state.records import Halt, StreamProgress, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.reports.standing import Standing
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.orphans import orphans
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.state.views.task_progress.shown_tasks import shown_status
from airflow_provider.ui.views.tasks import TaskQuery, found_tasks, task_page
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.lag import Lag
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")
DETACHED, ATTACHED, WAITS = (TaskId("job", index) for index in range(3))
ALL = frozenset({DETACHED, ATTACHED, WAITS})
JOBS = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=3)
HANDLE = {"server": "sc://spark:15002/;user_id=cospark", "session_id": "s"}
RUNNING, UNWATCHED = TaskState.RUNNING, TaskState.UNWATCHED
PENDING, UNASSIGNED = TaskState.PENDING, TaskState.UNASSIGNED
NOW_MS = 720_000 + 9_000


def a_group(*members: WorkerId, **round_: Any) -> StatusSnapshot:
    """The tasks of ``w1`` as it left them, in a round with these members."""
    record = record_of(
        {worker: ALL if worker == W1 else frozenset() for worker in members},
        config_offset=ConfigOffset(1),
        **round_,
    )
    status = status_snapshot(JOBS, "job", RUNNING, RUNNING, PENDING, record=record, worker="w1")
    far = StreamProgress(batch=7, rows_per_second=3.0, at_ms=9_000, asked_at_ms=8_000, lag=Lag(offsets=5))
    tasks = {
        task: replaced(last, kind=TaskKind.STREAMING, started_at_ms=1_000, progress=far)
        for task, last in status.tasks.items()
        if task != WAITS
    }
    tasks[DETACHED] = replaced(tasks[DETACHED], handle=HANDLE)
    said = {
        worker: WorkerStatus(worker=worker, state=WorkerPhase.STABLE, epoch=Epoch(5), slots=3) for worker in (W1, W2)
    }
    return replace(status, workers=said, tasks={**status.tasks, **tasks})


THERE = a_group(W1)
KILLED = THERE.without_members()
"""All workers were killed; only the coordinator knows."""
DELAYED = a_group(W2)
"""The round without ``w1``, whose tasks wait for it."""


def states(status: StatusSnapshot, jobs: JobsSnapshot = JOBS) -> list[TaskState | None]:
    found = [shown_status(task, jobs, status) for task in sorted(ALL)]
    return [None if last is None else last.state for last in found]


@pytest.mark.parametrize("status", [KILLED, DELAYED], ids=["all workers were killed", "its worker is awaited"])
def test_what_nobody_watches_does_not_count_as_running(status: StatusSnapshot) -> None:
    assert states(THERE) == [RUNNING, RUNNING, PENDING]
    assert states(status) == [UNWATCHED, UNWATCHED, UNASSIGNED]
    progress = job_progress("job", JOBS, status)
    assert progress is not None
    assert progress.counts == {UNASSIGNED: 1, UNWATCHED: 2}
    assert (progress.running, progress.running_everywhere) == (0, False)
    assert Standing.of_job("job", JOBS, status).in_words(NOW_MS) == "0 of 3 finished, 0 running, 0 failed"


def test_what_its_new_owner_is_to_watch_runs_and_what_it_has_to_start_waits() -> None:
    moved = replace(DELAYED, group=record_of({W2: ALL}, config_offset=ConfigOffset(1)))
    assert states(moved) == [RUNNING, PENDING, PENDING]


def test_a_worker_that_gives_a_task_away_watches_it_until_it_has_stopped() -> None:
    assert states(a_group(W1, revoked={W1: ALL})) == [RUNNING, RUNNING, PENDING]
    given_away = record_of({W1: frozenset(), W2: frozenset()}, config_offset=ConfigOffset(1))
    assert states(replace(THERE, group=given_away)) == [RUNNING, RUNNING, PENDING]


def test_without_a_round_only_the_coordinator_can_tell() -> None:
    """A leader of Java's writes no record of its rounds."""
    unknown = replace(THERE, group=None)
    assert states(unknown) == [RUNNING, RUNNING, PENDING]
    assert states(unknown.without_members()) == [UNWATCHED, UNWATCHED, UNASSIGNED]
    assert list(orphans(JOBS, unknown)) == []


def test_a_waiting_task_whose_former_query_is_not_known_to_have_ended_is_unwatched() -> None:
    waits = {**KILLED.tasks, WAITS: replaced(KILLED.tasks[WAITS], handle=HANDLE)}
    assert states(replace(KILLED, tasks=waits))[2] is UNWATCHED


@pytest.mark.parametrize("status", [THERE, KILLED, DELAYED])
def test_orphans_are_the_detached_ones_of_what_is_unwatched(status: StatusSnapshot) -> None:
    unwatched = [DETACHED] if states(status)[0] is UNWATCHED else []
    assert [orphan.status.task for orphan in orphans(JOBS, status)] == unwatched


def test_who_stops_a_job_waits_for_nothing_that_is_gone_and_hears_what_may_still_run() -> None:
    halt = HaltJob(job="job", halt=Halt.STOPPED)

    def noted(status: StatusSnapshot) -> tuple[str, ...]:
        return decide(halt, JOBS, status, by="ann", at_ms=0).outcome.notes

    assert noted(THERE) == ("waits until 2 running tasks have stopped: job:0, job:1",)
    alone = "no worker is there to stop what may still run (see cospark jobs orphans): job:0"
    assert noted(DELAYED) == (alone,)


class TestEveryViewSaysSo:
    def test_the_description_of_a_job(self) -> None:
        described = JobDescription.of("job", JOBS, KILLED)
        assert described is not None
        said = "no worker watches it, last heard of 12 min ago, batch 7, 3 rows/s"
        assert described.lines(now_ms=NOW_MS)[-3:] == [
            f"  job:0: unwatched on w1, detached on sc://spark:15002, attempt 1, {said}",
            f"  job:1: unwatched on w1, attempt 1, {said}",
            "  job:2: unassigned on w1, attempt 1",
        ]

    def test_the_description_of_a_group(self) -> None:
        empty = GroupDescription(
            error=KafkaErrorCode.NONE, group_id="g", state="Empty", protocol_type="connect", protocol="", members=()
        )
        lines = as_lines(describe(empty, JOBS, THERE))
        assert "no worker is there: w1 got lost; last heard of at 1970-01-01 00:00:09 UTC, epoch 5" in lines
        detached, attached, waits = lines[-3:]
        assert detached.startswith("  task job:0: unwatched at w1, detached on sc://spark:15002, attempt 1, no worker ")
        assert attached.startswith("  task job:1: unwatched at w1, attempt 1, no worker watches it, last heard of ")
        assert waits == "  task job:2: unassigned at w1, attempt 1"

    def test_the_status_of_a_group(self) -> None:
        console = Console(width=250, record=True, file=io.StringIO())
        console.print(render("g", JOBS, KILLED, wall_ms=NOW_MS))
        shown = " ".join(console.export_text().split())
        assert "│ w1 │ lost │" in shown
        assert (
            "unwatched (detached on sc://spark:15002): job:0 (no worker watches it, last heard of 12 min ago" in shown
        )
        assert "1 unassigned, 2 unwatched" in shown

    def test_a_report(self) -> None:
        report = JobReport.of("job", JOBS, KILLED)
        assert report is not None
        about = report.to_json(now_ms=NOW_MS)
        assert about["counts"] == {"unassigned": 1, "unwatched": 2}
        run = about["runs"]["0"]
        assert (run["state"], run["server"], run["seconds"]) == ("unwatched", "sc://spark:15002", None)
        assert run["progress"].startswith("no worker watches it, last heard of 12 min ago")
        assert "lag" not in run, "nobody knows whether it has read on"

    def test_the_page(self) -> None:
        page = task_page(found_tasks(JOBS, DELAYED), TaskQuery(), DELAYED)
        assert [line.state for line in page.lines] == [UNWATCHED, UNWATCHED, UNASSIGNED]
        assert page.lines[0].server == "sc://spark:15002"
        assert page.lines[0].progress.startswith("no worker watches it, last heard of at 1970-01-01 00:00:09 UTC")
        assert page.lines[0].lag is None

    def test_metrics(self) -> None:
        told = {
            (sample.metric, sample.tags[2:]): sample.value
            for sample in gauges("g", JOBS, DELAYED, now_ms=NOW_MS, unconverged_since_ms=None)
        }
        assert [told[declared.TASKS, (state,)] for state in ("running", "unwatched")] == [0, 2]
        assert (declared.BEHIND, ("offsets",)) not in told
        assert told[declared.ROWS_PER_S, ()] == 0
