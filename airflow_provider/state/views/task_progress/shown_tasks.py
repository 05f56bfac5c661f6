"""The state of a task as people see it: a halted task is shown as such, whatever its worker wrote last, a running
stream that does not move as stalled, and what no worker watches as unwatched. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from airflow_provider.state.records import Halt, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import is_watched, present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.awaited_trials import awaited_trial
from airflow_provider.state.views.task_progress.task_places import effective_status, effective_statuses
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

_NEEDS_A_WORKER: Final = frozenset({TaskState.PENDING, TaskState.RUNNING})
_STANDS_STILL: Final = frozenset({TaskState.UNASSIGNED, TaskState.PENDING, TaskState.STOPPED})
_AS: Final[Mapping[Halt, TaskState]] = MappingProxyType(
    {Halt.PAUSED: TaskState.PAUSED, Halt.STOPPED: TaskState.STOPPED}
)


def halted_as(job: str, jobs: JobsSnapshot) -> TaskState | None:
    """The state that is shown for tasks of a halted job that do not run; None: the job is not halted."""
    halt = jobs.halt_of(job)
    return None if halt is None else _AS[halt.halt]


def shown_state(
    state: TaskState,
    last: TaskStatus | None,
    halted: TaskState | None,
    status: StatusSnapshot,
    there: Container[WorkerId],
) -> TaskState:
    """
    :param halted: the result of :func:`halted_as`; only for tasks that were not stopped singly
    :param there: the result of :func:`~airflow_provider.state.views.presence.present`
    """
    if last is not None and state in _NEEDS_A_WORKER and not is_watched(last, status, there):
        state = TaskState.UNWATCHED if state is TaskState.RUNNING or last.lives_on else TaskState.UNASSIGNED
    elif state is TaskState.RUNNING and last is not None and last.stalled_since_ms is not None:
        return TaskState.STALLED
    return halted if halted is not None and state in _STANDS_STILL else state


def state_of_nobodys(job: str, jobs: JobsSnapshot) -> TaskState:
    """The state of a task that no worker has or has had in this run."""
    return halted_as(job, jobs) or TaskState.UNASSIGNED


def shown_status(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> TaskStatus | None:
    """As :func:`~airflow_provider.state.views.task_progress.task_places.effective_status`, for people to see."""
    last = effective_status(task, jobs, status)
    if last is None:
        return None
    singly = jobs.halt_of_task(task) is not None
    return _shown(last, None if singly else halted_as(task.job, jobs), status, present(status))


def _shown(
    last: TaskStatus, halted: TaskState | None, status: StatusSnapshot, there: Container[WorkerId]
) -> TaskStatus:
    state = shown_state(last.state, last, halted, status, there)
    return last if state is last.state else replaced(last, state=state)


def kept_waiting_by(last: TaskStatus | None, status: StatusSnapshot, *, alike: bool = False) -> str:
    """The condition that keeps the worker of a waiting task from running any, or else its trial; usually empty.

    :param alike: the same words for all that wait for the same
    """
    if last is None or last.state is not TaskState.PENDING:
        return ""
    said = status.workers.get(last.worker)
    if said is None or said.state is WorkerPhase.LEFT:
        return ""
    return said.condition or awaited_trial(last, status, place=not alike)


def shown_statuses(
    job: str, jobs: JobsSnapshot, status: StatusSnapshot, waiting: dict[TaskId, TaskStatus]
) -> Iterator[tuple[TaskId, TaskStatus | None]]:
    """As :func:`~airflow_provider.state.views.task_progress.task_places.effective_statuses`, for people to see."""
    every = effective_statuses(job, jobs, status, waiting)
    halted = halted_as(job, jobs)
    singly, there = jobs.stopped_tasks() if halted is not None else NO_TASKS, present(status)
    for task, last in every:
        if last is None or (halted is None and last.stalled_since_ms is None and last.worker in there):
            yield task, last
        else:
            yield task, _shown(last, None if task in singly else halted, status, there)


def with_tasks(workers: Iterable[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[str]:
    """Each worker with its running tasks, which keep a draining one from leaving."""
    for worker in workers:
        running = running_tasks((worker,), jobs, status)
        yield f"{worker}, which runs {in_short(running)}" if running else worker


def running_tasks(workers: Collection[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> list[str]:
    """What runs on these, in words."""
    running = (task for task, last in status.tasks.items() if last.worker in workers and last.state.runs)
    return [jobs.label(task) for task in sorted(running)]
