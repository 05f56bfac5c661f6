"""What speaks for a worker and against it, according to the records of tasks.

The kind of an error decides nothing. A missing class, jar or module is a fault of the worker if others have it, and of
the job if nobody has: the error is the same. What differs is that the task does its work elsewhere. So a worker is
blamed if tasks that failed there, and nowhere else, go well on other workers, while nothing goes well where they
failed. A job whose code is wrong goes well nowhere, and no worker is blamed for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Final

from airflow_provider.state.records import TaskFailure, TaskKind, TaskState, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId, Tasks, WorkerId

LATELY_MS: Final = 600_000
"""What went well longer ago than this no longer speaks for a worker, and failures no longer against it."""
_WELL_AFTER_MS: Final = 60_000
"""What is missing is missed soon after the start: a task that has run for this long goes well, unless it is stalled."""
_CASES: Final = 2
"""How many tasks have to go well elsewhere. A single one may have failed by accident."""
_MOST_NAMED: Final = 3


def goes_well(last: TaskStatus, *, wall_ms: int) -> bool:
    """Whether a task does its work, or has lately done it.

    :param wall_ms: now, milliseconds since 1970
    """
    if last.state is TaskState.FINISHED:
        return wall_ms - (last.finished_at_ms or 0) < LATELY_MS
    if last.state is not TaskState.RUNNING or last.stalled_since_ms is not None:
        return False
    return last.progress is not None or (last.running_ms(wall_ms) or 0) >= _WELL_AFTER_MS


def able(status: StatusSnapshot, *, wall_ms: int) -> frozenset[WorkerId]:
    """The workers on which something goes well. Planners say nothing: they hardly need anything of a worker."""
    lasts = status.tasks.values()
    return frozenset(last.worker for last in lasts if not last.task.is_planner and goes_well(last, wall_ms=wall_ms))


def found_a_place(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> Tasks:
    """The tasks that have lately failed on one worker, and now are at another one. To move them back for balance would
    make them fail again. If streams have come before one and keep all slots, it has found none: it would wait for ever.
    """
    here = [
        (last, owner)
        for last in status.tasks.values()
        if last.failed_on and not last.state.final
        if wall_ms - (last.started_at_ms or wall_ms) < LATELY_MS
        if (owner := status.owner_of(last.task)) is not None and owner not in last.failed_on
    ]
    waiting = any(last.started_at_ms is None for last, _ in here)
    full = _full_of_streams(jobs, status) if waiting else frozenset()
    return frozenset(last.task for last, owner in here if last.started_at_ms is not None or owner not in full)


def _full_of_streams(jobs: JobsSnapshot, status: StatusSnapshot) -> frozenset[WorkerId]:
    taken = Counter[WorkerId]()
    for last in status.tasks.values():
        if last.state is TaskState.RUNNING and last.kind is TaskKind.STREAMING:
            taken[last.worker] += jobs.slots_of(last.task)
    return frozenset(worker for worker, said in status.workers.items() if taken[worker] >= max(1, said.slots))


class Evidence:
    """What has failed on one worker since something went well there.

    :ivar failures: the last one of each task
    """

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self.failures: dict[TaskId, TaskFailure] = {}

    def failed(self, task: TaskId, failure: TaskFailure) -> None:
        self.failures[task] = failure

    def went_well(self) -> None:
        self.failures.clear()

    def forget_jobs_but(self, jobs: Container[str]) -> None:
        self.failures = {task: failure for task, failure in self.failures.items() if task.job in jobs}

    def verdict(self, status: StatusSnapshot, *, wall_ms: int) -> str:
        """Why the worker is to blame for these failures; empty: it is not, as far as is known."""
        if len(self.failures) < _CASES:
            return ""
        cases = [task for task in sorted(self.failures) if self._is_well_elsewhere(task, status, wall_ms)]
        if len(cases) < _CASES:
            return ""
        if self._worker in able(status, wall_ms=wall_ms):
            self.went_well()
            return ""
        failure = self.failures[cases[-1]].line
        return f"tasks fail here that go well elsewhere: {in_short(cases, most=_MOST_NAMED)}; the last one by {failure}"

    def _is_well_elsewhere(self, task: TaskId, status: StatusSnapshot, wall_ms: int) -> bool:
        last = status.tasks.get(task)
        if last is None or last.failed_on != (self._worker,) or last.worker == self._worker:
            return False
        return goes_well(last, wall_ms=wall_ms)
