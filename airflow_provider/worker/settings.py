"""A worker's settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider.group.membership import MembershipSettings
from airflow_provider.state.records import WorkerPhase


class Until(str, Enum):
    """When a worker's work is done."""

    DRAINED = "drained"
    """When every job in the group is bounded and complete (and there is at least one)."""
    FOREVER = "forever"
    """Never by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """A worker's settings.

    :param member: those of its membership
    :param slots: how many tasks it runs at the same time
    :param until: when its work is done
    :param phase: what its record says while it is in the group: stable in its own process, deferred in the triggerer
    :param returns_ms: how long it would take at most to come back if its process ended; 0: it would not; None: unknown
    :param idle_timeout_ms: how long it waits while no worker of its group has anything to run; None: without limit
    """

    member: MembershipSettings
    slots: int = 2
    until: Until = Until.DRAINED
    phase: WorkerPhase = WorkerPhase.STABLE
    returns_ms: int | None = None
    idle_timeout_ms: int | None = None
