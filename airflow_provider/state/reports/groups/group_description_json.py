"""What the records of a group say of it, as ``cospark groups describe`` has it as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import standing_error
from airflow_provider.state.reports.groups.group_description import how_it_is
from airflow_provider.state.reports.groups.time_zones import different_python_time_zones, different_time_zones
from airflow_provider.state.reports.learners import given_up, learners
from airflow_provider.state.reports.task_runs import run_to_json
from airflow_provider.state.rounds.policies import policy_to_json
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import what_was
from airflow_provider.state.views.slots.capacity import slot_shortage
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import converged
from airflow_provider.state.views.task_progress.shown_tasks import kept_waiting_by, shown_status
from airflow_provider.values.model import TaskId, WorkerId, tasks_to_json

_UNSAID: Final = {"state": None, "condition": "", "drains": False, "leaves_soon": False}
"""The state of a member without a record."""


def group_to_json(members: Sequence[str], jobs: JobsSnapshot, status: StatusSnapshot, now_ms: int) -> dict[str, Any]:
    """The last rebalance, the members with their tasks, and all tasks.

    :param members: who is in the group now
    """
    if not members:
        status = status.without_members()
    record = status.group
    assigned = {
        name: [task for task in record.owned_by(WorkerId(name)) if jobs.work_of(task) is not None] if record else []
        for name in members
    }
    return {
        "empty": None if members else what_was(status),
        "epoch": record.epoch if record else None,
        "converged": converged(record, status.workers) and not (record is not None and record.waiting),
        "leader": (record.leader or None) if record else None,
        "reason": (record.reason or None) if record else None,
        "step": record.step if record else "",
        "because": (record.because or None) if record else None,
        "unchanged": record.unchanged if record else 0,
        "policy": policy_to_json(record.policy) if record and record.policy else None,
        "delay_ms": record.delay_ms if record else 0,
        "members": [_member(WorkerId(name), status, assigned[name]) for name in members],
        "learners": [learner.to_json() for learner in learners(status)],
        "given_up": [one.to_json() for one in given_up(status)],
        "short_of_slots": None if (shortage := slot_shortage(jobs, status)) is None else shortage.to_json(),
        "time_zones": None if (zones := different_time_zones(status)) is None else dict(zones.workers),
        "python_time_zones": None if (own := different_python_time_zones(status)) is None else dict(own.workers),
        "jobs": sorted(jobs.jobs),
        "tasks": {str(last.task): _task(last, jobs, status, now_ms) for last in _tasks(jobs, status)},
    }


def _member(name: WorkerId, status: StatusSnapshot, assigned: Iterable[TaskId]) -> dict[str, Any]:
    worker = status.workers.get(name)
    return {
        "worker": name,
        **(how_it_is(worker) if worker else _UNSAID),
        "epoch": worker.epoch if worker else None,
        "url": worker.url if worker else None,
        "time_zone": worker.time_zone if worker else None,
        "python_time_zone": worker.python_time_zone if worker else None,
        "assigned": tasks_to_json(assigned),
    }


def _tasks(jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[TaskStatus]:
    """The state of each task of a present run that has an owner or a record."""
    assigned = status.group.assignment.values() if status.group else ()
    for task in sorted(frozenset(status.tasks).union(*assigned)):
        last = shown_status(task, jobs, status)
        if last is not None:
            yield last


def _task(task: TaskStatus, jobs: JobsSnapshot, status: StatusSnapshot, now_ms: int) -> dict[str, Any]:
    error = task.error if task.state is TaskState.FINISHED else standing_error(task)
    about = {
        "name": jobs.name_of(task.task),
        "slots": jobs.slots_of(task.task),
        "error": None if error is None else error.message,
        "waits_for": kept_waiting_by(task, status),
    }
    return {**run_to_json(task, now_ms), **about}
