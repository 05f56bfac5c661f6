"""How long a job's tasks have waited to start. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import needs_running
from airflow_provider.state.views.task_progress.task_places import status_of, tasks_of
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import TaskId, planner_of


def waits_since_ms(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> int | None:
    """Since when the longest waiting task has waited (wall clock, ms since 1970); None: none waits.

    Waiting is not recorded. So a task has waited since it was planned, since its last attempt ended, or, if its worker
    was lost, since the last round: at least that long.
    """
    definition, plan = jobs.jobs[job], jobs.plan_of(job)
    if plan is None:
        planner = planner_of(job)
        return task_waits_since_ms(planner, jobs, status) if needs_running(planner, jobs, status.tasks) else None
    longest: int | None = None
    for since in _waiting(definition, plan, status):
        longest = since if longest is None else min(since, longest)
        if longest <= plan.at_ms:
            break  # none can have waited longer
    return longest


def task_waits_since_ms(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> int | None:
    """The same of one task or planner, according to its last status."""
    work = jobs.planned_work(task)
    if work is None:
        return None
    plan = None if task.is_planner else jobs.plan_of(task.job)
    planned_ms = work.definition.submitted_at_ms if plan is None else plan.at_ms
    return _since(status_of(task, work.definition, work.fingerprint, status.tasks), planned_ms, status)


def _waiting(definition: JobDefinition, plan: PlanRecord, status: StatusSnapshot) -> Iterator[int]:
    for _, last in tasks_of(definition, plan, status.tasks):
        if (since := _since(last, plan.at_ms, status)) is not None:
            yield since


def _since(last: TaskStatus | None, planned_ms: int, status: StatusSnapshot) -> int | None:
    """:param last: its last status in its present run"""
    if last is None:
        return planned_ms
    if last.state.final:
        return None
    if last.state is not TaskState.RUNNING:
        return max(planned_ms, last.finished_at_ms or 0, last.retry_at_ms or 0)
    owner = status.owner_of(last.task)
    lost = status.group is not None and last.epoch < status.group.epoch and owner not in (last.worker, BRIDGE)
    return _round_ms(status.group, planned_ms) if lost else None


def _round_ms(group: GroupRecord | None, planned_ms: int) -> int:
    return planned_ms if group is None else max(planned_ms, group.at_ms)
