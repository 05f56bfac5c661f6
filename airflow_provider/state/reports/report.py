"""Reports on jobs and groups, according to the topics, as XCom has them. Pure, but for the time of day."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.state.records import TaskFailure, TaskState, TaskStatus, WorkerStatus
from airflow_provider.state.reports.assets import AssetReport, added_up
from airflow_provider.state.reports.learners import GivenUp, LearnerTask, given_up, learners
from airflow_provider.state.reports.task_runs import run_to_json, task_runs
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.move_reasons import one_by_one
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.capacity import SlotShortage, slot_shortage
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobProgress, converged, job_progress
from airflow_provider.values.model import TaskId, tasks_to_json


def _no_runs() -> Mapping[int, TaskStatus]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The state of a job's present run.

    :param progress: numbers of tasks, and errors
    :param results: what finished tasks returned, by index
    :param names: the names that the plan gives tasks, by index
    :param submitted_by: who submitted it
    :param learners: its tasks that are being learned
    :param assets: what its finished tasks say they have written
    :param runs: returns, by index, the last status of each task that a worker has or has had. They are looked up only
        when the report is shown: a sensor makes a report at each change, of thousands of tasks
    """

    progress: JobProgress
    results: Mapping[int, Any]
    submitted_by: str = ""
    names: Mapping[int, str] = field(default_factory=dict)
    learners: tuple[LearnerTask, ...] = ()
    assets: tuple[AssetReport, ...] = ()
    runs: Callable[[], Mapping[int, TaskStatus]] = field(default=_no_runs, compare=False, repr=False)

    @classmethod
    def of(cls, job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> JobReport | None:
        """The report on ``job``; None if there is no such job."""
        progress = job_progress(job, jobs, status)
        if progress is None:
            return None
        finished: dict[int, TaskStatus] = {}
        names: dict[int, str] = {}
        for index in range(progress.planned or 0):
            task = TaskId(job, index)
            if name := jobs.name_of(task):
                names[index] = name
            work, last = jobs.planned_work(task), status.tasks.get(task)
            if work and last and last.state is TaskState.FINISHED and last.is_of(progress.run_key, work.fingerprint):
                finished[index] = last

        def runs() -> Mapping[int, TaskStatus]:
            return task_runs(job, progress.planned or 0, jobs, status)

        return cls(
            progress=progress,
            results={index: status.result for index, status in finished.items()},
            submitted_by=jobs.jobs[job].submitted_by,
            names=names,
            learners=tuple(learner for learner in learners(status) if learner.task.job == job),
            assets=added_up(finished.values()),
            runs=runs,
        )

    @property
    def failed(self) -> bool:
        return self.progress.failed

    def to_json(self, *, now_ms: int | None = None) -> dict[str, Any]:
        """:param now_ms: wall clock, to compute how long tasks have run; by default this host's"""
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        progress = self.progress
        return {
            "job": progress.job,
            "run_key": progress.run_key,
            "state": progress.state.value,
            "complete": progress.complete,
            "tasks": progress.planned,
            "counts": {state.value: number for state, number in progress.counts.items()},
            # Airflow cuts what is too large at its end.
            "results": {str(index): result for index, result in self.results.items()},
            "names": {str(index): name for index, name in self.names.items()},
            "errors": {str(task): _error_json(error) for task, error in sorted(progress.errors.items())},
            "learners": [learner.to_json() for learner in self.learners],
            "assets": [asset.to_json() for asset in self.assets],
            "runs": {str(index): run_to_json(run, now_ms) for index, run in self.runs().items()},
        }


def _error_json(error: TaskFailure) -> dict[str, str]:
    return {"message": error.message, "traceback": error.traceback}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """The last completed rebalance of a group, and what followed.

    :param converged: each member has applied it, and no further round is to follow
    :param shortage: of slots for unbounded tasks, if there is one
    :param learners: the tasks that are being learned
    :param given_up: the tasks that could not be made ready elsewhere
    """

    record: GroupRecord
    workers: tuple[WorkerStatus, ...]
    converged: bool
    shortage: SlotShortage | None = None
    learners: tuple[LearnerTask, ...] = ()
    given_up: tuple[GivenUp, ...] = ()

    @classmethod
    def of(cls, jobs: JobsSnapshot, status: StatusSnapshot) -> GroupReport | None:
        """The report on a group; None before its first rebalance."""
        record = status.group
        if record is None:
            return None
        return cls(
            record=record,
            workers=tuple(status.workers[worker] for worker in sorted(record.members) if worker in status.workers),
            converged=converged(record, status.workers),
            shortage=slot_shortage(jobs, status),
            learners=learners(status),
            given_up=given_up(status),
        )

    def to_json(self) -> dict[str, Any]:
        record = self.record
        return {
            "epoch": record.epoch,
            **record.round_id,
            "leader": record.leader,
            "members": sorted(record.members),
            "assignment": {worker: tasks_to_json(tasks) for worker, tasks in sorted(record.assignment.items())},
            "revoked": {worker: tasks_to_json(tasks) for worker, tasks in sorted(record.revoked.items()) if tasks},
            "moved": [
                {
                    "task": [task.job, task.index],
                    "from": move.source,
                    "to": move.target,
                    "reason": move.reason.value,
                }
                for task, move in one_by_one(record.moves)
            ],
            "leaving": sorted(record.leaving_soon),
            "delay_ms": record.delay_ms,
            "deadline_ms": record.deadline_ms,
            "reason": record.reason,
            "step": record.step,
            "at_ms": record.at_ms,
            "converged": self.converged,
            "learners": [learner.to_json() for learner in self.learners],
            "given_up": [one.to_json() for one in self.given_up],
            "short_of_slots": None if self.shortage is None else self.shortage.to_json(),
            "workers": {
                worker.worker: {
                    "state": worker.state.value,
                    "epoch": worker.epoch,
                    "slots": worker.slots,
                    "running": tasks_to_json(worker.running),
                    "url": worker.url,
                    "spark_ui": worker.spark_ui,
                    "time_zone": worker.time_zone,
                    "python_time_zone": worker.python_time_zone,
                    "condition": worker.condition,
                    "drains": worker.drains,
                    "leaves_soon": worker.leaves_soon,
                }
                for worker in self.workers
            },
        }
