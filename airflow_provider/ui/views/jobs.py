"""The jobs of a group: their progress, their errors, and how long they may still take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median_low
from typing import Final

from airflow_provider.state.records import HaltRecord, TaskState
from airflow_provider.state.reports.durations import finished_times
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobProgress, job_progress
from airflow_provider.values.model import TaskId, labelled

_MOST_ERRORS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """The last error of a task."""

    index: int
    label: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job's present run.

    :param defined_at: the offset of its definition, which distinguishes it from another of its name
    :param halt: who paused or stopped it, and when; None: it runs
    :param tasks: how many its plan has; None: there is none yet
    :param counts: how many tasks are in each state
    :param more_errors: how many errors there are besides these
    :param took_ms: the median of the finished tasks
    :param longest_ms: of the task that took longest
    :param longest: the label of that task
    :param remaining_ms: how long the rest takes at the same rate; None: unknown
    """

    job: str
    defined_at: int
    kind: str
    entry_point: str
    state: str
    complete: bool
    halt: HaltRecord | None
    bounded: bool
    tasks: int | None
    counts: Mapping[str, int]
    errors: tuple[JobError, ...]
    more_errors: int
    run_key: str
    submitted_by: str
    submitted_at_ms: int | None
    retries: int | None
    took_ms: int | None
    longest_ms: int | None
    longest: str
    remaining_ms: int | None


def job_lines(jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[JobLine, ...]:
    times = finished_times(jobs, status)
    there = present(status)
    slots = sum(status.workers[name].slots for name in there if name in status.workers)
    return tuple(_line(name, jobs, status, times.get(name, ()), slots) for name in sorted(jobs.jobs))


def _line(
    job: str, jobs: JobsSnapshot, status: StatusSnapshot, times: Sequence[tuple[int, int]], slots: int
) -> JobLine:
    definition, progress = jobs.jobs[job], job_progress(job, jobs, status)
    assert progress is not None
    took_ms = median_low(took for took, _ in times) if times else None
    longest_ms, index = max(times) if times else (None, None)
    errors = sorted(progress.errors.items())
    return JobLine(
        job=job,
        defined_at=jobs.defined_at[job],
        kind=definition.kind.value,
        entry_point=definition.entry_point,
        state=progress.state.value,
        complete=progress.complete,
        halt=jobs.halt_of(job),
        bounded=definition.bounded,
        tasks=progress.planned,
        counts={state.value: count for state, count in progress.counts.items()},
        errors=tuple(
            JobError(index=task.index, label=labelled(task, progress.names.get(task, "")), line=error.line)
            for task, error in errors[:_MOST_ERRORS]
        ),
        more_errors=max(0, len(errors) - _MOST_ERRORS),
        run_key=definition.run_key,
        submitted_by=definition.submitted_by,
        submitted_at_ms=definition.submitted_at_ms or None,
        retries=definition.retries,
        took_ms=took_ms,
        longest_ms=longest_ms,
        longest="" if index is None else jobs.label(TaskId(job, index)),
        remaining_ms=_remaining_ms(progress, took_ms, _together(job, jobs, slots)) if definition.bounded else None,
    )


def _together(job: str, jobs: JobsSnapshot, slots: int) -> int:
    """How many tasks of the job run at the same time, if nothing else does."""
    plan = jobs.plan_of(job)
    if plan is None or not plan.large or not slots:
        return slots
    return max(1, slots * len(plan.configs) // (len(plan.configs) + sum(wanted - 1 for wanted in plan.large.values())))


def _remaining_ms(progress: JobProgress, took_ms: int | None, together: int) -> int | None:
    """Assumes that all slots of the group work for this job, and that other tasks take as long as the finished ones."""
    if progress.planned is None or took_ms is None or not together:
        return None
    over = sum(progress.counts.get(state, 0) for state in TaskState if state.final)
    return ceil((progress.planned - over) / together) * took_ms
