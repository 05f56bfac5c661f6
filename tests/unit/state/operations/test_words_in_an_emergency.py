"""What people read when something is wrong: what is so now, what is waited for, and what has no effect."""

from __future__ import annotations

from dataclasses import replace

import pytest
from group_records import record_of
from rich.console import Console

from airflow_provider.cli.group_commands.status import render
from airflow_provider.state.operations.deciding import decide
from airflow_provider.state.operations.operations import AlterJob, HaltJob, StopTasks
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import (
    Halt,
    HaltRecord,
    JobDefinition,
    PlanRecord,
    StreamProgress,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.records.jobs_topic.checkpoint_conf import without_effect
from airflow_provider.state.reports.groups.group_description_json import group_to_json
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Placed
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobState, job_progress
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.ui.views.groups import group_in_short
from airflow_provider.ui.views.tasks import TaskQuery, found_tasks, task_page
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

W1 = WorkerId("w1")
E0, E1 = TaskId("etl", 0), TaskId("etl", 1)
STREAMS = JobDefinition(name="etl", entry_point="m:f", kind=TaskKind.STREAMING, max_tasks=2)
BATCH = replace(STREAMS, kind=TaskKind.BATCH)
MINUTE_MS = 60_000


def jobs_of(job: JobDefinition, halt: Halt | None = None) -> JobsSnapshot:
    plan = PlanRecord.of(job, [{"name": "orders"}, {"name": "items"}], planned_by=W1, at_ms=0)
    halts = {} if halt is None else {"etl": Placed(HaltRecord(job="etl", halt=halt, by="somebody", at_ms=1), 5)}
    return JobsSnapshot(jobs={"etl": job}, plans={"etl": plan}, defined_at={"etl": 0}, halts=halts)


def task(which: TaskId, state: TaskState, job: JobDefinition = STREAMS, **more: object) -> TaskStatus:
    plan = jobs_of(job).plans["etl"]
    about = {"epoch": Epoch(1), "worker": W1, "kind": job.kind, "started_at_ms": 0, **more}
    return TaskStatus(task=which, state=state, fingerprint=plan.fingerprints[which.index], **about)  # type: ignore[arg-type]


def status_of(*tasks: TaskStatus) -> StatusSnapshot:
    there = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2)
    record = record_of({W1: frozenset({E0, E1})}, epoch=Epoch(1), config_offset=9)
    return StatusSnapshot(group=record, workers={W1: there}, tasks={each.task: each for each in tasks})


FAILED = task(E1, TaskState.FAILED, error=TaskFailure.of("boom"))


# ---- a job that is halted


@pytest.mark.parametrize(("halt", "state"), [(Halt.PAUSED, JobState.PAUSED), (Halt.STOPPED, JobState.STOPPED)])
def test_a_halted_job_is_shown_as_such_also_with_a_failed_task(halt: Halt, state: JobState) -> None:
    every_task_failed = status_of(FAILED, replaced(FAILED, task=E0, fingerprint=task(E0, TaskState.FAILED).fingerprint))
    for status in (status_of(FAILED), every_task_failed):
        progress = job_progress("etl", jobs_of(STREAMS, halt), status)
        assert progress is not None
        assert (progress.state, progress.failed) == (state, True)


def test_a_bounded_job_of_which_nothing_is_left_has_failed_whoever_has_paused_it() -> None:
    ended = [task(E0, TaskState.FINISHED, BATCH), task(E1, TaskState.FAILED, BATCH, error=TaskFailure.of("boom"))]
    progress = job_progress("etl", jobs_of(BATCH, Halt.PAUSED), status_of(*ended))
    assert progress is not None
    assert progress.state is JobState.FAILED


def test_who_waits_for_a_halted_job_hears_of_its_failed_task() -> None:
    wait = JobCondition(job="etl", run_key=None, goal=JobGoal.FAILED)
    assert wait.answer(jobs_of(STREAMS, Halt.PAUSED), status_of(FAILED)) is not None


# ---- the error of an earlier attempt


def test_an_error_is_not_told_of_a_stream_that_has_run_well_since() -> None:
    far = StreamProgress(batch=7, rows_per_second=1.0, at_ms=9 * MINUTE_MS)
    again = task(E0, TaskState.RUNNING, attempt=2, failures=1, error=TaskFailure.of("boom"), progress=far)
    jobs = jobs_of(STREAMS)

    def errors(last: TaskStatus) -> tuple[bool, bool, bool]:
        progress, described = (
            job_progress("etl", jobs, status_of(last)),
            JobDescription.of("etl", jobs, status_of(last)),
        )
        assert progress is not None
        assert described is not None
        shown = group_to_json((W1,), jobs, status_of(last), 0)["tasks"]["etl:0"]
        return bool(progress.errors), "boom" in "\n".join(described.lines(now_ms=0)), shown["error"] is not None

    assert errors(again) == (True, True, True), "it has just begun again"
    well = replaced(again, progress=replace(far, at_ms=11 * MINUTE_MS))
    assert errors(well) == (False, False, False)
    assert errors(replaced(well, stalled_since_ms=11 * MINUTE_MS)) == (True, True, True)
    assert errors(replaced(well, state=TaskState.PENDING)) == (True, True, True)


# ---- what fails again and again


def seen(jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[bool, tuple[str, ...], str]:
    """Whether it is on the page of `cospark status`; what the page says of the group, and of the task."""
    console = Console(width=200)
    with console.capture() as shown:
        console.print(render("g", jobs, status, wall_ms=0))
    wrong = group_in_short("g", jobs, status, now_ms=0).wrong
    (line,) = [line for line in task_page(found_tasks(jobs, status), TaskQuery(), status).lines if line.index == 0]
    return "etl:0 (orders), failed 5 times in a row: boom" in shown.get(), wrong, line.error


def test_a_stream_that_fails_again_and_again_is_shown_as_such() -> None:
    boom = TaskFailure.of("boom")
    fails = task(E0, TaskState.PENDING, attempt=6, failures=5, error=boom)
    alarm = "job etl: etl:0 (orders) fails again and again, and is tried again"
    assert seen(jobs_of(STREAMS), status_of(fails)) == (True, (alarm,), "failed 5 times in a row: boom")
    assert seen(jobs_of(STREAMS), status_of(replaced(fails, state=TaskState.RUNNING)))[1] == (alarm,)
    momentary = replaced(fails, failures=4)
    assert seen(jobs_of(STREAMS), status_of(momentary)) == (False, (), "boom")
    assert seen(jobs_of(STREAMS), status_of(replaced(fails, forgiven=1))) == (False, (), "boom")
    assert seen(jobs_of(STREAMS, Halt.PAUSED), status_of(fails))[1] == (), "nobody tries it again"
    both = status_of(fails, task(E1, TaskState.RUNNING, failures=9, error=boom))
    many = "job etl: etl:0 (orders), etl:1 (items) fail again and again, and are tried again"
    assert group_in_short("g", jobs_of(STREAMS), both, now_ms=0).wrong == (many,)


def test_a_planner_that_fails_again_and_again_is_shown_too() -> None:
    job = replace(STREAMS, replan_interval_ms=MINUTE_MS)
    planner = TaskStatus(
        task=planner_of("etl"),
        state=TaskState.PENDING,
        epoch=Epoch(1),
        worker=W1,
        fingerprint=job.fingerprint,
        failures=5,
        error=TaskFailure.of("boom"),
    )
    alarm = "job etl: etl:planner fails again and again, and is tried again"
    assert group_in_short("g", jobs_of(job), status_of(planner), now_ms=0).wrong == (alarm,)


def test_what_fails_again_and_again_is_told_before_what_may_be_momentary() -> None:
    boom = TaskFailure.of("boom")
    status = status_of(
        task(E0, TaskState.RUNNING, failures=1, error=boom), task(E1, TaskState.RUNNING, failures=5, error=boom)
    )
    progress = job_progress("etl", jobs_of(STREAMS), status)
    assert progress is not None
    first, second = progress.errors_in_words()
    assert first == "etl:1 (items), failed 5 times in a row: boom"
    assert second == "etl:0 (orders), an earlier attempt failed: boom"


# ---- what is waited for


@pytest.mark.parametrize("operation", [HaltJob(job="etl", halt=Halt.STOPPED), HaltJob(job="etl", halt=Halt.PAUSED)])
def test_a_halt_says_which_tasks_it_waits_for(operation: HaltJob) -> None:
    status = status_of(task(E0, TaskState.RUNNING), FAILED)
    outcome = decide(operation, jobs_of(STREAMS), status, by="me", at_ms=1).outcome
    said = outcome_in_words(operation, outcome)
    assert said == f"job etl: {operation.halt.value}; waits until 1 running task has stopped: etl:0 (orders)"
    assert outcome.to_json()["notes"] == ["waits until 1 running task has stopped: etl:0 (orders)"]


def test_a_stop_of_one_task_says_so_too_and_nothing_if_nothing_runs() -> None:
    status = status_of(task(E0, TaskState.RUNNING))
    stop_0, stop_1 = StopTasks(job="etl", tasks=frozenset({0})), StopTasks(job="etl", tasks=frozenset({1}))
    assert decide(stop_0, jobs_of(STREAMS), status, by="me", at_ms=1).outcome.notes != ()
    assert decide(stop_1, jobs_of(STREAMS), status, by="me", at_ms=1).outcome.notes == ()


def test_an_alteration_says_what_it_waits_for() -> None:
    operation = AlterJob(job="etl", config={"table": "orders"})

    def notes(jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[str, ...]:
        return decide(operation, jobs, status, by="me", at_ms=1).outcome.notes

    (first,) = notes(jobs_of(STREAMS), status_of())
    assert "is planned again first" in first
    assert notes(jobs_of(STREAMS, Halt.PAUSED), status_of()) == ("is planned again when it is resumed: it is paused",)
    nobody = StatusSnapshot()
    assert notes(jobs_of(STREAMS), nobody) == ("is planned again when a worker joins: the group has none",)
    retries = AlterJob(job="etl", settings={"retries": 3})
    assert decide(retries, jobs_of(STREAMS), status_of(), by="me", at_ms=1).outcome.notes == ()


# ---- what has no effect


def test_settings_that_a_checkpoint_keeps_are_said_to_have_no_effect() -> None:
    operation = AlterJob(
        job="etl", session_conf={"spark.sql.shuffle.partitions": "64", "spark.sql.ansi.enabled": "true"}
    )
    notes = decide(operation, jobs_of(STREAMS), status_of(), by="me", at_ms=1).outcome.notes
    assert notes[0] == "each task has the new settings of its session from its next start on"
    assert notes[1].startswith("spark.sql.shuffle.partitions has no effect on a stream with state that has begun")


def test_they_have_an_effect_on_batch_tasks_and_on_what_begins() -> None:
    more = {"session_conf": {"spark.sql.shuffle.partitions": "64"}}
    assert without_effect(STREAMS, replace(STREAMS, **more))  # type: ignore[arg-type]
    assert not without_effect(BATCH, replace(BATCH, **more))  # type: ignore[arg-type]
    assert not without_effect(None, replace(STREAMS, **more))  # type: ignore[arg-type]
    assert not without_effect(STREAMS, replace(STREAMS, session_conf={"spark.sql.ansi.enabled": "true"}))
