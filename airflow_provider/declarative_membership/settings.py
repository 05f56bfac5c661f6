"""The settings of a membership in a declarative group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.protocol.model import WorkerId

_CLOCK_TOLERANCE: Final = 100
"""The part of a period by which two clocks may come to differ in it: one hundredth."""


def by_a_slower_clock(ms: int) -> int:
    """How long a member may take a period for: less than the coordinator does by as much as their clocks may differ in
    speed.
    """
    return ms - ms // _CLOCK_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarativeSettings:
    """The settings of one membership, all times in milliseconds. The session is not among them: the coordinator grants
    it, and says so with each answer.

    :param group_id: the group to join
    :param worker: the group instance id (KIP-345), by which the worker is known everywhere
    :param url: where people can look at this worker
    :param server_assignor: the coordinator's assignor that this member asks for; None: it offers its own
    :param session_timeout_ms: what is taken for the session until the coordinator has answered
    :param heartbeat_interval_ms: the same of the time between heartbeats
    :param rebalance_timeout_ms: so long the coordinator waits for this member to stop what it has to stop
    :param lease_margin_ms: tasks are told to stop so long before the lease ends
    :param retry_backoff_ms: first wait after a request that failed; doubles with each further one
    :param retry_backoff_max_ms: longest wait after a request that failed
    """

    group_id: str
    worker: WorkerId
    url: str = ""
    server_assignor: str | None = None
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    lease_margin_ms: int = 2_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    @property
    def ready_from(self) -> float:
        """Nothing is learned in such a group yet."""
        return 1.0

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ValueError("group_id is empty: name the group that the worker shall join")
        if not self.worker:
            raise ValueError("worker is empty: give the worker a group instance id that stays the same over restarts")
        for name in ("heartbeat_interval_ms", "rebalance_timeout_ms", "retry_backoff_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        if self.lease_margin_ms >= by_a_slower_clock(self.session_timeout_ms):
            raise ValueError(
                f"lease_margin_ms={self.lease_margin_ms} must be less than"
                f" session_timeout_ms={self.session_timeout_ms}: otherwise no task could ever be started"
            )
