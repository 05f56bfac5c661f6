"""Orphans: detached queries that may be running, and that no worker of the group watches. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import is_watched, present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId
from airflow_provider.values.replacing import replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A detached query without a worker.

    :param status: the last record of its task
    :param label: the task's name for people
    :param why: why no worker watches it
    """

    status: TaskStatus
    label: str
    why: str

    def over(self, wall_ms: int) -> TaskStatus:
        """The record that says that it has stopped."""
        return replaced(self.status, state=TaskState.STOPPED, finished_at_ms=wall_ms)


def orphans(jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[Orphan]:
    """All orphans of a group, ordered by task."""
    there = present(status)
    for last in sorted(status.living(), key=lambda each: each.task):
        why = _why(last, there, jobs, status)
        if why:
            yield Orphan(status=last, label=jobs.label(last.task), why=why)


def watcher_of(last: TaskStatus, status: StatusSnapshot) -> WorkerId | None:
    """The worker that watches the query and reaches its server; None: nobody, according to the group's topics."""
    said = status.workers.get(last.worker)
    if last.state is not TaskState.RUNNING or last.worker not in present(status) or said is None:
        return None
    return last.worker if last.task in said.running and not said.condition else None


def _why(last: TaskStatus, there: frozenset[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> str:
    if is_watched(last, status, there):
        waits = last.state is TaskState.PENDING
        error = last.error.line if last.error is not None else "it may still be running"
        return f"its worker {last.worker} can't end it: {error}" if waits else ""
    if last.task.job not in jobs.jobs:
        return "its job was removed"
    if jobs.work_of(last.task) is None:
        return "it is stopped, or no longer planned"
    return f"its worker {last.worker} is not in the group" if there else "the group has no workers"
