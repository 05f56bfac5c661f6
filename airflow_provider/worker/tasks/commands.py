"""The commands of a worker's executor."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.state.records import PlanRecord, TaskStatus
from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.tasks.runs.runs import TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something that the caller of the machine has to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt(Command):
    """Start this attempt. Exactly one last event follows, however late."""

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAttempts(Command):
    """Stop the attempts of these tasks. A last event follows when each has ended."""

    tasks: Tasks
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWatching(Command):
    """Stop watching the detached queries of these tasks, which keep running. No more events follow."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Command):
    """Watch the detached query of this attempt by its handle. The last event of the attempt comes from this watch."""

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver(Command):
    """Find the earlier query of the task by its handle, to adopt it or to end it. Answered by
    :class:`~airflow_provider.spark.runner.QueryAdopted`, which is followed by a last event, or by ``QueryCleared``; if
    the server can't be reached, ``QueryUnreachable`` comes first.
    """

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOrphan(Command):
    """End the query of this status, which no worker has. No task waits for it."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LetBegin(Command):
    """The start of the attempt is stored: call its code."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWarmUp(Command):
    """Warm this task up. A :class:`StartAttempt` of the same task continues with the warm-up."""

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWarmUp(Command):
    """Drop the warm-up of this task. No more events of it follow."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus(Command):
    """Write a task's record. If it has a claim, others may wait for it; otherwise the next record may replace it."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress(Command):
    """Write the progress of a running task. It is not shown on the timeline."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStopped(Command):
    """Write that a task has stopped here. If its job was removed, delete the record after that."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEnd(Command):
    """Write the last record of a task, again and again until it is stored, in place of one that is still being
    written. Answered by :class:`~.events.EndWritten` or :class:`~.events.EndRefused` with the same number.
    """

    number: int
    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStart(Command):
    """Write that an attempt runs before it begins, again and again until it is stored. Answered by
    :class:`~.events.StartWritten` with the same number.
    """

    number: int
    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan(Command):
    """Write a job's plan, again and again until it is stored. Answered by :class:`~.events.PlanWritten` or
    :class:`~.events.PlanRefused` with the same number.
    """

    number: int
    task: TaskId
    plan: PlanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUpWriting(Command):
    """Stop trying to write the task's last record, its plan or its start."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStopped(Command):
    """Tell the membership that these no longer run here and still have to be run, when their records say so."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFinished(Command):
    """Tell the membership that these have finished or failed, and that the status topic says so."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimer(Command):
    """Feed :class:`~.events.TimerFired` at ``at_ms`` (monotonic). This replaces the previous timer."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inform(Command):
    """Write a message to the worker's log."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn(Command):
    """Write a warning to the worker's log."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellOfTask(Command):
    """Write to the worker's log what has happened to this task. It may happen to many tasks at once, because they share
    a Spark, a server or a broker, so one line tells it of all of them.

    :param label: the task
    :param one: what is said of it: "is stalled"
    :param many: the same of several: "are stalled"
    :param why: may be another one for each of them; empty: nothing more is to be said
    :param incident: what they have in common, if that is more than ``one``
    :param warns: whether it is a warning
    """

    label: str
    one: str
    many: str
    why: str = ""
    incident: str = ""
    warns: bool = True

    @property
    def message(self) -> str:
        """Of this task alone."""
        return f"task {self.label} {self.one}{f': {self.why}' if self.why else ''}"
