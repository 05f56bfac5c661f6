"""How many tasks of jobs have finished, run or failed: one line for the log of a task that waits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress, why_idle
from airflow_provider.state.views.task_progress.shown_tasks import shown_status
from airflow_provider.values.model import TaskId

SAY_EVERY_S: Final = 30.0
"""The log of a waiting task has at most one line in so many seconds."""

SAY_AGAIN_S: Final = 600.0
"""It has at least one line in so many seconds, even if nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of some jobs' present runs. Equal ones read the same, but for the time that has passed.

    :param planning: how many of the jobs have no plan yet
    :param tasks: how many tasks the plans have
    :param longest: the label of the task that has been running longest
    :param since_ms: since when it runs (wall clock, milliseconds since 1970)
    :param halted: for one job that was paused or stopped: by whom
    """

    planning: int
    tasks: int
    finished: int
    running: int
    failed: int
    longest: str | None = None
    since_ms: int | None = None
    halted: str = ""

    @classmethod
    def of_job(cls, job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Standing:
        """The state of one job, which is in the group."""
        progress = job_progress(job, jobs, status)
        assert progress is not None
        halt = jobs.halt_of(job)
        halted = "" if halt is None else f"{halt.halt.value} by {halt.by or 'somebody'}"
        if progress.planned is None:
            failed = int(progress.failed)
            return cls(planning=1 - failed, tasks=0, finished=0, running=0, failed=failed, halted=halted)
        running = _running(job, progress.planned, jobs, status)
        longest = min(running, key=lambda task: _or_never(task.started_at_ms), default=None)
        return cls(
            planning=0,
            tasks=progress.planned,
            finished=progress.counts.get(TaskState.FINISHED, 0),
            running=progress.running,
            failed=progress.counts.get(TaskState.FAILED, 0),
            longest=None if longest is None else jobs.label(longest.task),
            since_ms=None if longest is None else longest.started_at_ms,
            halted=halted,
        )

    @classmethod
    def of_group(cls, jobs: JobsSnapshot, status: StatusSnapshot) -> Standing:
        """The state of all jobs of the group that have not ended."""
        every = [cls.of_job(job, jobs, status) for job in jobs.jobs]
        going = [one for one in every if one.planning or one.finished + one.failed < one.tasks]
        with_longest = [one for one in going if one.longest is not None]
        first = min(with_longest, key=lambda one: _or_never(one.since_ms), default=None)
        return cls(
            planning=sum(one.planning for one in going),
            tasks=sum(one.tasks for one in going),
            finished=sum(one.finished for one in going),
            running=sum(one.running for one in going),
            failed=sum(one.failed for one in going),
            longest=None if first is None else first.longest,
            since_ms=None if first is None else first.since_ms,
        )

    def in_words(self, wall_ms: int) -> str:
        """As in "31 of 40 finished, 6 running (longest: etl:7 (orders), 212 s), 0 failed"."""
        return f"{self.halted}: {self._counts(wall_ms)}" if self.halted else self._counts(wall_ms)

    def _counts(self, wall_ms: int) -> str:
        if self.planning and not self.tasks:
            return "being planned"
        longest = "" if self.longest is None else f" (longest: {self.longest}{_for(self.since_ms, wall_ms)})"
        more = f", {self.planning} more being planned" if self.planning else ""
        return f"{self.finished} of {self.tasks} finished, {self.running} running{longest}, {self.failed} failed{more}"


def _running(job: str, planned: int, jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[TaskStatus]:
    """The last statuses of a job's running tasks."""
    for task in (TaskId(job, index) for index in range(planned)):
        said = status.tasks.get(task)
        if said is not None and said.state is TaskState.RUNNING:
            last = shown_status(task, jobs, status)
            if last is not None and last.state.runs:
                yield last


def _or_never(ms: int | None) -> float:
    return float("inf") if ms is None else ms


def _for(since_ms: int | None, wall_ms: int) -> str:
    return "" if since_ms is None else f", {max(0, wall_ms - since_ms) // 1000} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What is waited for, and its present state. Equal ones read the same, but for the time that has passed."""

    text: str
    standing: Standing | None = None

    def of_group(self, group: str) -> SoFar:
        """A copy that names the group in which it is waited for."""
        return replace(self, text=f"Group {group}: waiting for {self.text}")

    def in_words(self, wall_ms: int) -> str:
        return self.text if self.standing is None else f"{self.text}: {self.standing.in_words(wall_ms)}"


def group_so_far(group: str, jobs: JobsSnapshot, status: StatusSnapshot) -> SoFar | None:
    """The state of a group; None if it has nothing to run, which its workers log themselves."""
    if why_idle(jobs, status.tasks) is not None:
        return None
    return SoFar(text=f"Group {group}", standing=Standing.of_group(jobs, status))


class Pace:
    """Decides when a waiting task logs the state: when it has changed, but not too often."""

    def __init__(self) -> None:
        self._said: object = None
        self._said_at_s: float | None = None

    def is_due(self, what: object, now_s: float) -> bool:
        """Whether to log this now; the caller then does.

        :param now_s: by a monotonic clock
        """
        if self._said_at_s is not None:
            wait_s = SAY_AGAIN_S if what == self._said else SAY_EVERY_S
            if now_s - self._said_at_s < wait_s:
                return False
        self._said, self._said_at_s = what, now_s
        return True
