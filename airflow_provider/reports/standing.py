"""How far the tasks of jobs are, in a line for the log of a task that waits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import JobState, job_progress, why_idle
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ledger.task_places import effective_status
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import TaskState, TaskStatus

SAY_EVERY_S: Final = 30.0
"""No log of one who waits has more than a line in so long."""

SAY_AGAIN_S: Final = 600.0
"""Nor less than one in so long, though nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far the present runs of some jobs are. Two that are equal say the same, but for the time that has passed.

    :param planning: how many of the jobs have no plan yet
    :param tasks: how many the plans have
    :param longest: what the one is called that has run longest of those that run
    :param since_ms: since when (wall clock, milliseconds since 1970)
    :param halted: that of one job, if it was paused or stopped: by whom
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
        """That of one job, which is in the group."""
        progress = job_progress(job, jobs, status)
        assert progress is not None
        halt = jobs.halt_of(job)
        halted = "" if halt is None else f"{halt.halt.value} by {halt.by or 'somebody'}"
        if progress.planned is None:
            failed = int(progress.state is JobState.FAILED)
            return cls(planning=1 - failed, tasks=0, finished=0, running=0, failed=failed, halted=halted)
        running = _running(job, progress.planned, jobs, status)
        longest = min(running, key=lambda task: _or_never(task.started_at_ms), default=None)
        return cls(
            planning=0,
            tasks=progress.planned,
            finished=progress.counts.get(TaskState.FINISHED, 0),
            running=progress.counts.get(TaskState.RUNNING, 0),
            failed=progress.counts.get(TaskState.FAILED, 0),
            longest=None if longest is None else jobs.label(longest.task),
            since_ms=None if longest is None else longest.started_at_ms,
            halted=halted,
        )

    @classmethod
    def of_group(cls, jobs: JobsSnapshot, status: StatusSnapshot) -> Standing:
        """That of all jobs in the group that are not over."""
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
    """The last words about those tasks of a job that run."""
    for task in (TaskId(job, index) for index in range(planned)):
        said = status.tasks.get(task)
        if said is not None and said.state is TaskState.RUNNING:
            last = effective_status(task, jobs, status)
            if last is not None and last.state is TaskState.RUNNING:
                yield last


def _or_never(ms: int | None) -> float:
    return float("inf") if ms is None else ms


def _for(since_ms: int | None, wall_ms: int) -> str:
    return "" if since_ms is None else f", {max(0, wall_ms - since_ms) // 1000} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What is waited for and where that is. Two that are equal say the same, but for the time that has passed."""

    text: str
    standing: Standing | None = None

    def of_group(self, group: str) -> SoFar:
        """With the words that name the group in which it is waited for."""
        return replace(self, text=f"Group {group}: waiting for {self.text}")

    def in_words(self, wall_ms: int) -> str:
        return self.text if self.standing is None else f"{self.text}: {self.standing.in_words(wall_ms)}"


def group_so_far(group: str, jobs: JobsSnapshot, status: StatusSnapshot) -> SoFar | None:
    """How far a group is; None if it has nothing to run, which its workers say by themselves."""
    if why_idle(jobs, status.tasks) is not None:
        return None
    return SoFar(text=f"Group {group}", standing=Standing.of_group(jobs, status))


class Pace:
    """When the log of one who waits says how things are: when they have changed, but not too often."""

    def __init__(self) -> None:
        self._said: object = None
        self._said_at_s: float | None = None

    def is_due(self, what: object, now_s: float) -> bool:
        """Whether to say this now; asked only by who then says it.

        :param now_s: by a clock that never goes back
        """
        if self._said_at_s is not None:
            wait_s = SAY_AGAIN_S if what == self._said else SAY_EVERY_S
            if now_s - self._said_at_s < wait_s:
                return False
        self._said, self._said_at_s = what, now_s
        return True
