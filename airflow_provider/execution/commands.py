"""What a worker's executor is to do."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.protocol.model import TaskId, Tasks
from airflow_provider.records import PlanRecord, TaskStatus
from airflow_provider.runs.runs import TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something that the driver of the machine shall do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt(Command):
    """Run this, and say what becomes of it: there is exactly one last event, however late."""

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAttempts(Command):
    """End the work of these. Each is heard of when it has ended."""

    tasks: Tasks
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWatching(Command):
    """Let go of the handles of these; their work goes on without this process. Nothing more is heard of them."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Command):
    """What has begun here goes on without this process: watch it by its handle. It has the last event of its attempt
    from there.
    """

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver(Command):
    """Find the earlier query of the task by its handle, to adopt it or to end it. Answered by
    :class:`~.events.QueryAdopted`, which is followed by a last event, or by :class:`~.events.QueryCleared`; if the
    server can't be reached, :class:`~.events.QueryUnreachable` comes first.
    """

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOrphan(Command):
    """End the query of this status, which no worker has. No task waits for it."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LetBegin(Command):
    """Where the attempt is to begin is stored: its code may be called."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWarmUp(Command):
    """Make this ready to run, and say how far it is. :class:`StartAttempt` of the same task goes on with that."""

    run: TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWarmUp(Command):
    """Let go of what was made ready of this. Nothing is heard of it any more."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus(Command):
    """Write where a task is. Others may wait for it if there is a claim in it; else the next word will do."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress(Command):
    """Write how far a task is that goes on. It is no step of the timeline."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStopped(Command):
    """Write that a task has stopped here; if its job was removed, there is nothing more to say of it."""

    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEnd(Command):
    """Write the last record of a task, again and again until it is stored, in place of one that is still being
    written. Answered by :class:`~.events.EndWritten` or :class:`~.events.EndRefused` with the same number.
    """

    number: int
    status: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteHandle(Command):
    """Write where an attempt is about to begin, again and again until it is stored. Answered by
    :class:`~.events.HandleWritten` with the same number.
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
    """Write the task's last record, or its plan, no more."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStopped(Command):
    """Tell the membership that these do not run here any more, and are still to be run."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFinished(Command):
    """Tell the membership that these came to their end, and that the status topic says so."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimer(Command):
    """Feed :class:`~.events.TimerFired` at ``at_ms`` (monotonic); replaces the time asked for before."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inform(Command):
    """Something for the worker's log."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn(Command):
    """Something that people should read about."""

    message: str
