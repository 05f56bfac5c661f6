"""Decides what is written when a user stops or restarts tasks of a job."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from airflow_provider.state.operations import notes
from airflow_provider.state.operations.decision import Asked, Decision
from airflow_provider.state.operations.operations import OperationError, Outcome, RestartJob, StopTasks
from airflow_provider.state.records import (
    JobDefinition,
    RestartRecord,
    TaskHaltRecord,
    TaskState,
    halt_task_key,
    restart_key,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import needs_running
from airflow_provider.state.views.task_progress.retrying import to_try_again
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.model import PLANNER_INDEX, TaskId, planner_of

_MOST_NAMED: Final = 20


def stop_tasks(operation: StopTasks, definition: JobDefinition, asked: Asked) -> Decision:
    """Decide which records stop some tasks of a job."""
    job, jobs, status = operation.job, asked.jobs, asked.status
    if PLANNER_INDEX in operation.tasks:
        raise OperationError(f"job {job!r}: a planner can't be stopped alone; stop the job")
    named = _named_tasks(job, operation.tasks, jobs)
    for task in named:
        last = effective_status(task, jobs, status)
        if last is not None and last.state.final:
            raise OperationError(f"task {task} has {last.state.value} already, so it can't be stopped")
    stopped = tuple(task for task in named if jobs.halt_of_task(task) is None)
    if not stopped:
        return Decision(outcome=Outcome(subject=job, changed=False))
    return Decision(
        outcome=Outcome(subject=job, changed=True, stopped=stopped, notes=notes.of_stop(stopped, jobs, status)),
        jobs={
            halt_task_key(task): TaskHaltRecord(
                job=job,
                index=task.index,
                run_key=definition.run_key,
                fingerprint=work.fingerprint,
                by=asked.by,
                at_ms=asked.at_ms,
            ).to_json()
            for task in stopped
            if (work := jobs.planned_work(task)) is not None
        },
        event=asked.event("stop tasks", job, f"tasks: {_indexes(operation.tasks)}"),
    )


def restart(operation: RestartJob, definition: JobDefinition, asked: Asked) -> Decision:
    """Decide which records restart, retry or resume tasks of a job."""
    job, jobs, status = operation.job, asked.jobs, asked.status
    named = _asked_for(operation, jobs)
    again = to_try_again(definition, jobs.plans.get(job), status.tasks, operation.tasks)
    retried = {word.task for word in again}
    alive = [task for task in named if task not in retried and needs_running(task, jobs, status.tasks)]
    restarted = [] if operation.only_failed else [task for task in alive if _is_somewhere(task, jobs, status)]
    resumed = [] if operation.only_failed else [task for task in named if jobs.halt_of_task(task) is not None]
    finished = () if operation.tasks is None else tuple(task for task in named if _has_finished(task, jobs, status))
    outcome = Outcome(
        subject=job,
        changed=bool(restarted or retried or resumed),
        restarted=tuple(restarted),
        retried=tuple(sorted(retried)),
        resumed=tuple(resumed),
        finished=finished,
    )
    if not outcome.changed:
        return Decision(outcome=outcome)
    to_restart = [*restarted, *resumed]  # a resumed task may not have stopped yet, so it is restarted, too
    indexes = [None] if operation.tasks is None else [task.index for task in to_restart]
    records = [RestartRecord(job=job, index=index, by=asked.by, at_ms=asked.at_ms) for index in indexes if to_restart]
    return Decision(
        outcome=outcome,
        jobs={
            **{restart_key(job, record.index): record.to_json() for record in records},
            **{halt_task_key(task): None for task in resumed},
        },
        tasks=again,
        event=asked.event("restart", job, _in_words(operation, outcome)),
    )


def _asked_for(operation: RestartJob, jobs: JobsSnapshot) -> list[TaskId]:
    """:raises OperationError: if there is no such task"""
    if operation.tasks is not None:
        return _named_tasks(operation.job, operation.tasks, jobs)
    plan = jobs.plan_of(operation.job)
    there = 0 if plan is None else len(plan.configs)
    return [planner_of(operation.job), *(TaskId(operation.job, index) for index in range(there))]


def _named_tasks(job: str, indexes: Set[int], jobs: JobsSnapshot) -> list[TaskId]:
    """:raises OperationError: if there is no such task"""
    plan = jobs.plan_of(job)
    there = 0 if plan is None else len(plan.configs)
    unknown = sorted(index for index in indexes if not PLANNER_INDEX <= index < there)
    if unknown:
        why = f"it has {there} tasks, from 0 on" if plan is not None else "it has no plan yet"
        raise OperationError(f"job {job!r} has no task {', '.join(map(str, unknown))}: {why}")
    return [TaskId(job, index) for index in sorted(indexes)]


def _is_somewhere(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether a worker has the task; otherwise there is nothing to restart."""
    last = effective_status(task, jobs, status)
    return last is not None and last.state in (TaskState.RUNNING, TaskState.PENDING)


def _has_finished(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    last = effective_status(task, jobs, status)
    return last is not None and last.state is TaskState.FINISHED


def _in_words(operation: RestartJob, outcome: Outcome) -> str:
    """A summary for the timeline."""
    which = "all" if operation.tasks is None else _indexes(operation.tasks)
    again = f", {len(outcome.resumed)} resumed" if outcome.resumed else ""
    failed = f"{len(outcome.retried)} tried again after a failure"
    return f"tasks: {which}; {len(outcome.restarted)} restarted, {failed}{again}"


def _indexes(tasks: Set[int]) -> str:
    return ", ".join(map(str, sorted(tasks)[:_MOST_NAMED]))
