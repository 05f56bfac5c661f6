"""Records in a group's topics that are no longer needed, because their jobs or workers are gone. Pure.

A job's plan and its tasks' records are deleted with it. But a worker that has not read the removal may write later, and
a removal may be interrupted. And a worker that never comes back under its name leaves its record behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.state.records import (
    ALL_WORKERS,
    ControlRecord,
    HaltRecord,
    LevelsRecord,
    PlanRecord,
    TaskHaltRecord,
    TaskStatus,
    WorkerStatus,
    control_key,
    halt_key,
    halt_task_key,
    levels_key,
    plan_key,
    restart_key,
    task_key,
    worker_key,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Restart
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId

_KEPT_MS: Final = 24 * 60 * 60 * 1_000
"""How long the records of a worker that has left are kept: for people, and because the clocks of hosts may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """The records that may be deleted, by key.

    :param jobs: those in the jobs topic
    :param status: those in the status topic
    """

    jobs: Mapping[str, PlanRecord | HaltRecord | TaskHaltRecord | Restart | ControlRecord | LevelsRecord]
    status: Mapping[str, TaskStatus | WorkerStatus]

    def __bool__(self) -> bool:
        return bool(self.jobs or self.status)

    def __and__(self, others: Leftovers) -> Leftovers:
        """Those that are the same in both."""
        return Leftovers(
            jobs={key: record for key, record in self.jobs.items() if others.jobs.get(key) == record},
            status={key: record for key, record in self.status.items() if others.status.get(key) == record},
        )


def leftovers(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int) -> Leftovers:
    """The records without a job or worker. ``jobs`` must be at least as new as ``status``."""
    plans = {plan_key(job): plan for job, plan in jobs.plans.items() if job not in jobs.jobs}
    halts = {halt_key(job): placed.record for job, placed in jobs.halts.items() if job not in jobs.jobs}
    of_halts = {
        halt_task_key(task): placed.record for task, placed in jobs.task_halts.items() if task.job not in jobs.jobs
    }
    restarts = {restart_key(job): asked for job, asked in jobs.restarts.items() if job not in jobs.jobs}
    of_tasks = {
        restart_key(task.job, task.index): asked
        for task, asked in jobs.task_restarts.items()
        if task.job not in jobs.jobs
    }
    of_removed = (last for task, last in status.tasks.items() if task.job not in jobs.jobs)
    over = (last for last in of_removed if not (_holds_checkpoint(last, status) or status.lives_on(last.task)))
    tasks = {task_key(last.task): last for last in over}
    wishes = {control_key(worker): jobs.controls[worker] for worker in _gone(jobs.controls, status, wall_ms)}
    of_workers = {WorkerId(worker): record for worker, record in jobs.levels.items() if worker != ALL_WORKERS}
    levels = {levels_key(worker): of_workers[worker] for worker in _gone(of_workers, status, wall_ms)}
    workers = {worker_key(worker): status.workers[worker] for worker in _gone(status.workers, status, wall_ms)}
    return Leftovers(
        jobs={**plans, **halts, **of_halts, **restarts, **of_tasks, **wishes, **levels}, status={**tasks, **workers}
    )


def _holds_checkpoint(last: TaskStatus, status: StatusSnapshot) -> bool:
    """Whether a task may still hold a checkpoint: its worker deletes the record when the task has stopped. Until then a
    new job of the same name has to wait.
    """
    lost = status.group is not None and status.group.is_without(last.worker, last.epoch)
    return last.standing_claim is not None and not lost


def _gone(
    records: Mapping[WorkerId, ControlRecord] | Mapping[WorkerId, WorkerStatus] | Mapping[WorkerId, LevelsRecord],
    status: StatusSnapshot,
    wall_ms: int,
) -> Iterator[WorkerId]:
    """The workers that are not in the group, are not waited for, and have old records.

    The coordinator has removed such a worker, so its lease is over, and a successor does not need its record. A record
    of a later epoch than the group's is needed until the group has continued from that epoch.
    """
    record = status.group
    if record is None or record.delay_ms or record.deadline_ms:
        return
    for worker, last in records.items():
        late = isinstance(last, WorkerStatus) and last.epoch > record.epoch
        if worker not in record.members and not late and last.at_ms + _KEPT_MS <= wall_ms:
            yield worker
