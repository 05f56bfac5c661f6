"""Events (input) and commands (output) of the member machines of all group protocols. Each protocol adds its own.

Every event carries ``now_ms``, the caller's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.values.model import ConfigOffset, Epoch, Tasks

# ---- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at ``now_ms`` (monotonic milliseconds)."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAdvanced(Event):
    """The jobs topic has been read up to ``config_offset``."""

    config_offset: ConfigOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksStopped(Event):
    """Tasks have stopped here, whether they were told to or not, and have to run elsewhere or again."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksFinished(Event):
    """Tasks came to their own end, and the status topic has a record of that."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequested(Event):
    """The worker is to leave the group for good."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time asked for by :class:`ArmTimer` has come."""


# ---- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something that the member's caller has to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTasks(Command):
    """Run these tasks; they belong to this worker from ``epoch`` on."""

    tasks: Tasks
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTasks(Command):
    """Stop these tasks, started or not, and report :class:`TasksStopped` when they have stopped."""

    tasks: Tasks
    reason: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimer(Command):
    """Feed :class:`TimerFired` at ``at_ms`` (monotonic). Replaces the time that was asked for before."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAssignment(Command):
    """Write into the worker's own record what it owns now, and in which epoch."""

    epoch: Epoch
    owned: Tasks
    revoking: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(Command):
    """The membership has ended against the worker's will."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn(Command):
    """Log a problem that people should know of, and that the member copes with."""

    message: str
