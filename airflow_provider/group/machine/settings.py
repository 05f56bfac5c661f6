"""The settings of a membership that all group protocols have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.values.model import WorkerId

_CLOCK_TOLERANCE: Final = 100
"""Two clocks may differ by one hundredth of the time that they measure."""


def by_a_slower_clock(ms: int) -> int:
    """Shorten a period that the coordinator measures, for use on the member's own clock.

    The clocks may differ in speed, and the member's period must not end after the coordinator's.
    """
    return ms - ms // _CLOCK_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """Defaults are Kafka Connect's; all times are in milliseconds.

    :param group_id: the group to join
    :param worker: the group instance id (KIP-345), by which the worker is known everywhere
    :param url: where people can look at this worker
    :param lease_margin_ms: how long before the end of the lease tasks are told to stop
    :param retry_backoff_ms: the wait after a failed request; it doubles with each further one
    :param retry_backoff_max_ms: the longest wait after a failed request
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
            raise ValueError("group_id is empty: name the group that the worker is to join")
        if not self.worker:
            raise ValueError("worker is empty: give the worker a group instance id that stays the same over restarts")
