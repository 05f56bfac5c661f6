"""A job's definition together with its state, as Connect's ``expand`` gives both. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider.state.records import HaltRecord, JobDefinition, TaskFailure, TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import standing_error
from airflow_provider.state.records.times import time_in_words
from airflow_provider.state.reports.groups.group_description import whose
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.reports.task_runs import run_to_json
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import kept_waiting_by, shown_status, state_of_nobodys
from airflow_provider.values.model import TaskId, planner_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDescription:
    """A task of a job's present plan, or its planner.

    :param slots: how many slots of its worker it takes while it runs; the planner takes none
    :param config: its own; for the planner the job's
    :param last: its last status in this run; None: no worker has it, or had it
    :param state: as shown to people
    :param waits_for: what it waits for, or its worker, in words
    """

    task: TaskId
    name: str
    slots: int
    config: Mapping[str, Any]
    last: TaskStatus | None
    state: TaskState
    waits_for: str

    @property
    def worker(self) -> str:
        """The worker that has it, or had it last."""
        return "" if self.last is None else self.last.worker

    @property
    def error(self) -> TaskFailure | None:
        """What people are to see of its last error."""
        return None if self.last is None or self.state is TaskState.FINISHED else standing_error(self.last)

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """:param now_ms: wall clock, to compute how long it has run"""
        run = {"state": self.state.value} if self.last is None else run_to_json(self.last, now_ms)
        error = None if self.error is None else self.error.to_json()
        about = {"index": self.task.index, "name": self.name, "slots": self.slots, "config": dict(self.config)}
        return {**about, **run, "error": error, "waits_for": self.waits_for}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """A job and all its tasks.

    :param version: identifies its definition among earlier and later ones
    :param halt: who paused or stopped it, and when; None: it runs
    :param planner: its planner
    :param tasks: of its present plan
    """

    definition: JobDefinition
    version: int
    report: JobReport
    halt: HaltRecord | None
    planner: TaskDescription
    tasks: tuple[TaskDescription, ...]

    @classmethod
    def of(cls, job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> JobDescription | None:
        """Describe a job; None if there is no such job."""
        definition, report = jobs.jobs.get(job), JobReport.of(job, jobs, status)
        if definition is None or report is None:
            return None

        unowned = state_of_nobodys(job, jobs)

        def described(task: TaskId) -> TaskDescription:
            work, last = jobs.planned_work(task), shown_status(task, jobs, status)
            return TaskDescription(
                task=task,
                name=jobs.name_of(task),
                slots=jobs.slots_of(task),
                config={} if work is None else work.config,
                last=last,
                state=unowned if last is None else last.state,
                waits_for=kept_waiting_by(last, status),
            )

        planned = range(report.progress.planned or 0)
        return cls(
            definition=definition,
            version=jobs.defined_at[job],
            report=report,
            halt=jobs.halt_of(job),
            planner=described(planner_of(job)),
            tasks=tuple(described(TaskId(job, index)) for index in planned),
        )

    @classmethod
    def of_all(cls, jobs: JobsSnapshot, status: StatusSnapshot) -> list[JobDescription]:
        """Describe all jobs of the group, by name."""
        found = (cls.of(job, jobs, status) for job in sorted(jobs.jobs))
        return [job for job in found if job is not None]

    def to_json(self, *, now_ms: int) -> dict[str, Any]:
        """:param now_ms: wall clock, to compute how long tasks have run"""
        progress = self.report.progress
        return {
            "definition": self.definition.to_json(),
            "version": self.version,
            "status": {
                "state": progress.state.value,
                "complete": progress.complete,
                "counts": {state.value: number for state, number in progress.counts.items()},
                "halt": None if self.halt is None else self.halt.to_json(),
                "planner": self.planner.to_json(now_ms),
                "tasks": [task.to_json(now_ms) for task in self.tasks],
            },
        }

    @property
    def _retries(self) -> int | str:
        retries = self.definition.retries_of(TaskId(self.definition.name, 0))
        return "without limit" if retries is None else retries

    def lines(self, *, now_ms: int) -> list[str]:
        """The description for a terminal.

        :param now_ms: wall clock, to say how old things are
        """
        definition, progress = self.definition, self.report.progress
        submitted = (
            f"submitted by {definition.submitted_by or 'somebody'} at {time_in_words(definition.submitted_at_ms)}"
        )
        halted = []
        if self.halt is not None:
            halted = [f"  {self.halt.halt.value} by {self.halt.by or 'somebody'} at {time_in_words(self.halt.at_ms)}"]
        settings = {
            "max tasks": definition.max_tasks,
            "retries": self._retries,
            "retry delay": f"{definition.retry_delay_ms} ms",
            "task timeout": None if definition.timeout_ms is None else f"{definition.timeout_ms} ms",
            "plans again after": None
            if definition.replan_interval_ms is None
            else f"{definition.replan_interval_ms} ms",
            "stalled after": None if definition.stall_after_ms is None else f"{definition.stall_after_ms} ms",
            "run": definition.run_key or None,
            "version": self.version,
        }
        return [
            f"{progress.job}: {progress.state.value}",
            *halted,
            f"  {definition.kind.value} job {definition.entry_point}, {submitted}",
            "  " + ", ".join(f"{name}: {value}" for name, value in settings.items() if value is not None),
            *(f"  {name} = {value}" for name, value in definition.session_conf.items()),
            *(f"  {key}: {value!r}" for key, value in definition.config.items()),
            *self._task_lines(now_ms),
        ]

    def _task_lines(self, now_ms: int) -> list[str]:
        shown = [self.planner, *self.tasks] if self.planner.last is not None else list(self.tasks)
        lines = []
        for task in shown:
            label = f"{task.task} ({task.name})" if task.name else str(task.task)
            label += f", {task.slots} slots" if task.slots > 1 else ""
            where = far = ""
            if task.last is not None:
                detached = f", detached on {task.last.server}" if task.last.server else ""
                where = f" on {task.worker}{detached}, attempt {task.last.attempt}"
                far = task.last.how_far(now_ms) if task.state.may_run else ""
            waits = "".join(f", {words}" for words in (far, task.waits_for) if words)
            failed = f"{whose(task.state.value)}: {task.error.line}" if task.error else ""
            lines.append(f"  {label}: {task.state.value}{where}{waits}{failed}")
        return lines
