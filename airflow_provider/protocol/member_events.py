"""What a member hears (events) and what it wants done (commands) in any group protocol; each has more of its own.

Every event carries ``now_ms``, the caller's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.protocol.holding import StopReason
from airflow_provider.protocol.model import ConfigOffset, Epoch, Tasks

# ---- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened at ``now_ms`` (monotonic milliseconds)."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAdvanced(Event):
    """The jobs topic has been read up to ``config_offset``."""

    config_offset: ConfigOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksStopped(Event):
    """Tasks do not run here any more, whether they were told to stop or not, and are to run on."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksFinished(Event):
    """Tasks came to their own end, and the status topic says so."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequested(Event):
    """The worker shall leave the group for good."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time asked for by :class:`ArmTimer` has come."""


# ---- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something that the member's driver shall do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTasks(Command):
    """Run these; they are this worker's from ``epoch`` on."""

    tasks: Tasks
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTasks(Command):
    """Stop these, started or not, and answer with :class:`TasksStopped` when they have stopped."""

    tasks: Tasks
    reason: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTimer(Command):
    """Feed :class:`TimerFired` at ``at_ms`` (monotonic); replaces the time asked for before."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAssignment(Command):
    """Say in the worker's own record what it has by now, in which epoch."""

    epoch: Epoch
    owned: Tasks
    revoking: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(Command):
    """The membership has ended against the worker's will."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn(Command):
    """Something that people should read about, but that the member copes with."""

    message: str
