"""Where each task of a present run is, according to its last status and its present owner. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus, TaskWork
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

Statuses = Mapping[TaskId, TaskStatus]

_NOBODY: Final = WorkerId("")
_WAITS: Final = frozenset({TaskState.UNASSIGNED, TaskState.PENDING})


def tasks_of(
    definition: JobDefinition, plan: PlanRecord, statuses: Statuses
) -> Iterator[tuple[TaskId, TaskStatus | None]]:
    for index, fingerprint in enumerate(plan.fingerprints):
        task = TaskId(definition.name, index)
        yield task, status_of(task, definition, fingerprint, statuses)


def status_of(task: TaskId, definition: JobDefinition, fingerprint: str, statuses: Statuses) -> TaskStatus | None:
    """The status, if it is of the present run of the present work."""
    status = statuses.get(task)
    return status if status is not None and status.is_of(definition.run_key, fingerprint) else None


def effective_status(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> TaskStatus | None:
    """The status of a task of the present run, as if its worker had just written it; None: no worker has had it.

    Nothing is written about tasks that wait for their first start, because there may be thousands. So a task waits if
    it was assigned to a worker that has written nothing about it since. A detached query runs, whoever has to watch it.
    """
    work = jobs.planned_work(task)
    if work is None:
        return None
    last, owner = status_of(task, work.definition, work.fingerprint, status.tasks), _owner(task, jobs, status)
    if jobs.halt_of_task(task) is not None:
        return _as_stopped(work, last, status)
    if owner is None or _effective_state(last, owner, status) is not TaskState.PENDING:
        return last
    if last is None:
        return _first_word(work, TaskState.PENDING, _epoch(status), owner)
    return _waits_at(owner, last, status)


def effective_statuses(
    job: str, jobs: JobsSnapshot, status: StatusSnapshot, waiting: dict[TaskId, TaskStatus]
) -> Iterator[tuple[TaskId, TaskStatus | None]]:
    """The same for all tasks of a job's plan, faster than one by one: there may be 100,000.

    :param waiting: a cache for this round and this plan: the statuses of tasks about which nothing is written
    """
    first_words: dict[WorkerId, TaskStatus] = {}
    for found in where_all_are(job, jobs, status):
        task, last, owner = found.task, found.last, found.owner
        if found.halted:
            last = effective_status(task, jobs, status)
        elif owner is not None and last is None:
            last = waiting.get(task)
            if last is None:
                first = first_words.get(owner)
                if first is None:
                    first = effective_status(task, jobs, status)
                    assert first is not None  # somebody has it
                    first_words[owner] = first
                waiting[task] = last = replaced(first, task=task, fingerprint=found.fingerprint)
        elif owner is not None and last is not None and found.state is TaskState.PENDING:
            last = _waits_at(owner, last, status)
        yield task, last


class Whereabouts(NamedTuple):
    """Where a task is.

    :param fingerprint: the fingerprint of its work
    :param last: its last status, if it is of this run of this work
    :param owner: the worker that has it; None: none
    :param halted: whether it was stopped singly
    """

    task: TaskId
    fingerprint: str
    state: TaskState
    last: TaskStatus | None
    owner: WorkerId | None
    halted: bool


def where_all_are(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[Whereabouts]:
    """The whereabouts of each task of the job's plan, by index."""
    definition, plan = jobs.jobs.get(job), jobs.plan_of(job)
    if definition is None or plan is None:
        return
    halted_ones = jobs.stopped_tasks()
    given = not jobs.is_stopped(job) and _is_given(job, jobs, status)
    statuses, run_key, owner_of = status.tasks, definition.run_key, status.owner_of
    for index, fingerprint in enumerate(plan.fingerprints):
        task = TaskId(job, index)
        last = statuses.get(task)
        if last is not None and not last.is_of(run_key, fingerprint):
            last = None
        halted = task in halted_ones
        owner = owner_of(task) if given and not halted else None
        state = _effective_state(last, owner, status)
        if halted and state in _WAITS:
            state = TaskState.STOPPED
        yield Whereabouts(task, fingerprint, state, last, owner, halted)


def _waits_at(owner: WorkerId, last: TaskStatus, status: StatusSnapshot) -> TaskStatus:
    """The status of a task that waits there, made from its last one."""
    if (last.state, last.worker) == (TaskState.PENDING, owner):
        return last
    attempt = last.attempt + (last.started_at_ms is not None)
    return replaced(
        last, state=TaskState.PENDING, epoch=_epoch(status), worker=owner, attempt=attempt, started_at_ms=None
    )


def _epoch(status: StatusSnapshot) -> Epoch:
    return status.group.epoch if status.group is not None else Epoch(0)


def _as_stopped(work: TaskWork, last: TaskStatus | None, status: StatusSnapshot) -> TaskStatus:
    """The status of a task that was stopped singly. If it had not begun, no worker writes that it has stopped."""
    if last is None:
        return _first_word(work, TaskState.STOPPED, _epoch(status), _NOBODY)
    return last if last.state not in _WAITS else replaced(last, state=TaskState.STOPPED)


def _first_word(work: TaskWork, state: TaskState, epoch: Epoch, worker: WorkerId) -> TaskStatus:
    return TaskStatus(
        task=work.task,
        state=state,
        epoch=epoch,
        worker=worker,
        run_key=work.definition.run_key,
        kind=work.definition.kind,
        fingerprint=work.fingerprint,
    )


def _owner(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> WorkerId | None:
    """The task's owner, if the last round knew the job's present definition. A stopped task has none."""
    return status.owner_of(task) if not jobs.is_stopped_task(task) and _is_given(task.job, jobs, status) else None


def _is_given(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether the last round knew the job's present definition."""
    return status.group is not None and jobs.defined_at.get(job, -1) < status.group.config_offset


def _effective_state(last: TaskStatus | None, owner: WorkerId | None, status: StatusSnapshot) -> TaskState:
    """The state of a task, from its last status in its present run and its owner."""
    if last is None:
        return TaskState.UNASSIGNED if owner is None else TaskState.PENDING
    if owner is None or status.group is None or last.state.final or last.epoch >= status.group.epoch:
        return last.state
    here = owner in (last.worker, BRIDGE) and last.state not in (TaskState.STOPPED, TaskState.UNASSIGNED)
    return last.state if here or last.lives_on else TaskState.PENDING
