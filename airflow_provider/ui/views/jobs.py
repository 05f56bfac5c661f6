"""The jobs of a group: how far each is, what went wrong, how long it may still take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median_low
from typing import Final

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.presence import present
from airflow_provider.ledger.progress import JobProgress, job_progress
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import TaskId, labelled
from airflow_provider.records import HaltRecord, TaskState
from airflow_provider.reports.durations import finished_times

_MOST_ERRORS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why a task failed last."""

    index: int
    label: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job's present run.

    :param defined_at: the offset of its definition, which tells it from another of its name
    :param halt: by whom it was paused or stopped, and when; None: it runs
    :param tasks: how many its plan has; None before there is one
    :param counts: how many tasks are in each state
    :param more_errors: how many errors there are beside these
    :param took_ms: the median of the tasks that have finished
    :param longest_ms: of the task that took longest
    :param longest: what that one is called
    :param remaining_ms: how long the rest takes if it goes on so; None: nobody can tell
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
    retries: int
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
        remaining_ms=_remaining_ms(progress, took_ms, slots) if definition.bounded else None,
    )


def _remaining_ms(progress: JobProgress, took_ms: int | None, slots: int) -> int | None:
    """As if all slots of the group worked for this job, and what is left took as long as what has finished."""
    if progress.planned is None or took_ms is None or not slots:
        return None
    over = sum(progress.counts.get(state, 0) for state in TaskState if state.final)
    return ceil((progress.planned - over) / slots) * took_ms
