"""The conditions that sensors and operators wait for, as values, evaluated with the present state of the topics. Pure.

They are stored as arguments of triggers, so their keys must stay compatible with older releases.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.state.records import JobDefinition, Removal
from airflow_provider.state.reports.groups.departures import departure_in_words
from airflow_provider.state.reports.learners import learners
from airflow_provider.state.reports.report import GroupReport, JobReport
from airflow_provider.state.reports.standing import SoFar, Standing
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import nobody
from airflow_provider.state.views.slots.scaling import departure, still_there
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobProgress, JobState, converged, job_progress
from airflow_provider.values.counted import counted
from airflow_provider.values.model import WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end of the wait.

    :param report: the value for XCom
    :param problem: why the condition can't hold any more; None: it holds
    """

    report: Mapping[str, Any]
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"report": dict(self.report), "problem": self.problem}


def problem_in_words(group: str, answer: Mapping[str, Any]) -> str:
    """The error of the task that has waited: where, why, and what to do.

    :param answer: an :class:`Answer` as JSON, with a problem
    """
    report, told = answer["report"], f"group {group!r}: {storable(answer['problem'])}"
    if report.get("state") != JobState.FAILED.value or "job" not in report:
        return told
    retry = shlex.join(["cospark", "jobs", "retry", group, report["job"]])
    return f"{told}\nTo try the failed tasks again: {retry}; then clear this task"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCondition:
    """The group has reached an epoch.

    :param at_least: this epoch, or a later one
    :param converged: whether its workers must also have applied it, and no further round may follow: no
        task is still to move, be it stopped or being learned
    """

    at_least: int
    converged: bool = False

    def answer(self, jobs: JobsSnapshot, status: StatusSnapshot) -> Answer | None:
        """None: go on waiting."""
        if status.group is None or status.group.epoch < self.at_least:
            return None
        if self.converged and (learners(status) or not converged(status.group, status.workers)):
            return None
        report = GroupReport.of(jobs, status)
        return None if report is None else Answer(report=report.to_json())

    def report(self, jobs: JobsSnapshot, status: StatusSnapshot) -> Mapping[str, Any] | None:
        """How it is now, for a sensor that has waited long enough; None if there is nothing to report."""
        report = GroupReport.of(jobs, status)
        return None if report is None else report.to_json()

    def so_far(self, jobs: JobsSnapshot, status: StatusSnapshot) -> SoFar:
        """What is waited for and where that is, for a log."""
        wanted = f"epoch {self.at_least} or a later one{', converged' if self.converged else ''}"
        report = GroupReport.of(jobs, status)
        if report is None:
            return SoFar(text=f"{wanted}: the group has had no rebalance yet")
        converged = "" if report.converged else ", not converged"
        learned = f", {counted(len(report.learners), 'task')} being learned" if report.learners else ""
        return SoFar(text=f"{wanted}: the group is at epoch {report.record.epoch}{converged}{learned}")

    def to_json(self) -> dict[str, Any]:
        return {"of": "epoch", "at_least": self.at_least, "converged": self.converged}


class JobGoal(str, Enum):
    """The state of a job that is waited for."""

    FINISHED = "finished"
    """Every task has finished."""
    FAILED = "failed"
    """The planner or a task has failed for good."""
    RUNNING = "running"
    """Every task that has not finished runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCondition:
    """A run of a job has reached this state, or can't reach it any more.

    :param run_key: the run; None: the present one. Ignored for jobs that do not end by themselves: they have no runs
    :param since_ms: stop waiting if the job is removed after this time (wall clock, milliseconds since 1970). None:
        ignore removals
    :param fingerprint: the fingerprint of the definition that is waited for: another one means that the job was
        replaced. None: any
    """

    job: str
    run_key: str | None
    goal: JobGoal
    fingerprint: str | None = None
    since_ms: int | None = None

    def answer(self, jobs: JobsSnapshot, status: StatusSnapshot) -> Answer | None:
        """None: go on waiting."""
        definition, progress = jobs.jobs.get(self.job), job_progress(self.job, jobs, status)
        if definition is None or progress is None:
            return self._without_it(jobs.removals.get(self.job))
        if self.fingerprint is not None and (self.fingerprint, self.run_key) not in (
            (definition.fingerprint, definition.run_key),
            (definition.tasks_basis, definition.run_key),
        ):
            return self._gone(
                f"job {self.job!r} was submitted again during the wait:"
                f" by {definition.submitted_by or 'somebody'}, run {definition.run_key!r}"
            )
        if self._is_of_another_run(definition):
            return None
        over, problem = self._judge(progress, bounded=definition.bounded)
        if not over:
            return None
        return Answer(report=self.report(jobs, status) or {}, problem=problem)

    def report(self, jobs: JobsSnapshot, status: StatusSnapshot) -> Mapping[str, Any] | None:
        """How it is now, for a sensor that has waited long enough; None if there is nothing to report."""
        definition, report = jobs.jobs.get(self.job), JobReport.of(self.job, jobs, status)
        if definition is None or report is None or self._is_of_another_run(definition):
            return None
        return report.to_json()

    def so_far(self, jobs: JobsSnapshot, status: StatusSnapshot) -> SoFar:
        """What is waited for and where that is, for a log."""
        wanted = f"job {self.job!r}{f' of run {self.run_key!r}' if self.run_key else ''} to be {self.goal.value}"
        definition = jobs.jobs.get(self.job)
        if definition is None:
            return SoFar(text=f"{wanted}: the group has no such job")
        if self._is_of_another_run(definition):
            return SoFar(text=f"{wanted}: the group has that job of run {definition.run_key!r}")
        standing = Standing.of_job(self.job, jobs, status)
        why_nobody = "" if standing.running else nobody(status)
        return SoFar(
            text=f"{wanted}, for which the group has no workers ({why_nobody})" if why_nobody else wanted,
            standing=standing,
        )

    def _is_of_another_run(self, job: JobDefinition | Removal) -> bool:
        return self.run_key is not None and job.bounded and job.run_key != self.run_key

    def _judge(self, progress: JobProgress, *, bounded: bool) -> tuple[bool, str | None]:
        """The answer, if the wait is over."""
        finished, failed = progress.state is JobState.FINISHED, progress.failed
        if self.goal is JobGoal.FAILED:
            return failed or finished, f"job {self.job!r} has finished" if finished else None
        if finished or (self.goal is JobGoal.RUNNING and progress.running_everywhere):
            return True, None
        # The other tasks of a bounded job continue: a wait for its end reports all errors together.
        if failed and (progress.complete or not bounded or self.goal is JobGoal.RUNNING):
            return True, f"job {self.job!r} has failed:\n{progress.failures_in_words}"
        return False, None

    def _without_it(self, removal: Removal | None) -> Answer | None:
        """The group has no such job. If the waiting task submitted it, it was removed; otherwise it may still come."""
        if removal is None:
            gone = self.fingerprint is not None
            return self._gone(f"job {self.job!r} was removed during the wait") if gone else None
        before = self.since_ms is None or removal.at_ms < self.since_ms
        if self.fingerprint is None and (before or self._is_of_another_run(removal)):
            return None
        return self._gone(f"job {self.job!r} {removal}")

    @staticmethod
    def _gone(problem: str) -> Answer:
        return Answer(report={}, problem=problem)

    def to_json(self) -> dict[str, Any]:
        return {
            "of": "job",
            "job": self.job,
            "run_key": self.run_key,
            "goal": self.goal.value,
            "fingerprint": self.fingerprint,
            "since_ms": self.since_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveCondition:
    """Workers that were asked to leave the group have left it.

    :param workers: their names; the requests must be stored before the wait begins
    """

    workers: tuple[WorkerId, ...]

    def answer(self, jobs: JobsSnapshot, status: StatusSnapshot) -> Answer | None:
        """None: go on waiting."""
        if still_there(self.workers, jobs, status):
            return None
        return Answer(report=self.report(jobs, status))

    def report(self, jobs: JobsSnapshot, status: StatusSnapshot) -> Mapping[str, Any]:
        """How it is now, also for a task that has waited long enough."""
        return departure(self.workers, jobs, status)

    def so_far(self, jobs: JobsSnapshot, status: StatusSnapshot) -> SoFar:
        """What is waited for and where that is, for a log."""
        workers = counted(len(self.workers), "worker")
        return SoFar(text=f"{workers} to leave: {departure_in_words(self.workers, jobs, status)}")

    def to_json(self) -> dict[str, Any]:
        return {"of": "leave", "workers": list(self.workers)}


Condition = EpochCondition | JobCondition | LeaveCondition


def condition_from_json(data: Mapping[str, Any]) -> Condition:
    """The condition that made ``data``.

    :raises ValueError: if none did
    """
    try:
        match data.get("of"):
            case "epoch":
                return EpochCondition(at_least=int(data["at_least"]), converged=bool(data.get("converged", False)))
            case "job":
                return JobCondition(
                    job=data["job"],
                    run_key=data["run_key"],
                    goal=JobGoal(data["goal"]),
                    fingerprint=data.get("fingerprint"),
                    since_ms=data.get("since_ms"),
                )
            case "leave":
                return LeaveCondition(workers=tuple(map(WorkerId, data["workers"])))
            case other:
                raise ValueError(f"there is no condition of {other!r}: upgrade the triggerer too")
    except KeyError as missing:
        raise ValueError(f"a condition of {data['of']!r} without {missing}: upgrade the triggerer too") from None
