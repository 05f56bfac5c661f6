"""The two clocks: a monotonic one to measure times, and the wall clock, which other hosts share."""

from __future__ import annotations

import time
from typing import Final

MEASURE: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The monotonic clock that goes on while the host is suspended, because the coordinator's clock goes on, too. On Linux,
``CLOCK_MONOTONIC`` stops then, and so do ``time.monotonic()`` and a loop's ``time()``; on macOS it goes on.
"""


def now_ms() -> int:
    """The monotonic clock of leases and of all other times of a membership, in milliseconds.

    An event loop has another clock: see :mod:`airflow_provider.group.live.timers`.
    """
    return time.clock_gettime_ns(MEASURE) // 1_000_000


def wall_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return int(time.time() * 1000)
