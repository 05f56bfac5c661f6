"""The settings that a membership has in any group protocol."""

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
class CommonSettings:
    """Defaults are Kafka Connect's, all times in milliseconds.

    :param group_id: the group to join
    :param worker: the group instance id (KIP-345), by which the worker is known everywhere
    :param url: where people can look at this worker
    :param lease_margin_ms: tasks are told to stop so long before the lease ends
    :param retry_backoff_ms: first wait after a failed request; doubles with each further one
    :param retry_backoff_max_ms: longest wait after a failed request
    """

    group_id: str
    worker: WorkerId
    url: str = ""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    lease_margin_ms: int = 2_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ValueError("group_id is empty: name the group that the worker shall join")
        if not self.worker:
            raise ValueError("worker is empty: give the worker a group instance id that stays the same over restarts")
