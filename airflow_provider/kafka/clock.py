"""The two clocks: one to measure by, one that others can read too."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The monotonic clock that asyncio's loop uses, in milliseconds."""
    return int(time.monotonic() * 1000)


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
