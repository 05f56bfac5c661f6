"""Times of the wall clock, and durations, in words."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

_LAST_S: Final = 253_402_300_799
"""The end of the year 9999."""


def time_in_words(wall_ms: int) -> str:
    """The time to the second, for people.

    :param wall_ms: milliseconds since 1970
    """
    return f"{_at(wall_ms):%Y-%m-%d %H:%M:%S} UTC"


def since_in_words(wall_ms: int, now_ms: int | None) -> str:
    """As in "for 12 min", or "since 2026-01-01 10:00:00 UTC".

    :param now_ms: wall clock; None: unknown
    """
    return f"since {time_in_words(wall_ms)}" if now_ms is None else f"for {span(now_ms - wall_ms)}"


def ago_in_words(wall_ms: int, now_ms: int | None) -> str:
    """As in "12 min ago", or "at 2026-01-01 10:00:00 UTC".

    :param now_ms: wall clock; None: unknown
    """
    return f"at {time_in_words(wall_ms)}" if now_ms is None else f"{span(now_ms - wall_ms)} ago"


def time_as_text(wall_ms: int) -> str:
    """The time in ISO 8601."""
    return _at(wall_ms).isoformat()


def span(ms: int) -> str:
    """A duration in words.

    :param ms: milliseconds; a negative number, as from the clocks of two hosts, is shown as 0
    """
    seconds = max(0, ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds) // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"


def _at(wall_ms: int) -> datetime:
    """The time; one beyond Python's calendar, which a record may have, is shown as the calendar's last one."""
    return datetime.fromtimestamp(min(wall_ms // 1000, _LAST_S), tz=timezone.utc)
