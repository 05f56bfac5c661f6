"""The two clocks: one to measure by, one that others can read too."""

from __future__ import annotations

import time
from typing import Final

MEASURE: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Of monotonic clocks the one that goes on while the host is suspended, for the coordinator's does, too. On Linux
``CLOCK_MONOTONIC``, and with it ``time.monotonic()`` and a loop's ``time()``, stands still then; on macOS it goes on.
"""


def now_ms() -> int:
    """The monotonic clock by which leases and all of a membership's times are measured, in milliseconds.

    An event loop has another one: see :mod:`airflow_provider.group.timers`.
    """
    return time.clock_gettime_ns(MEASURE) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
