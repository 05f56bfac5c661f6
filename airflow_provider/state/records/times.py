"""Times of the wall clock in words."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from airflow_provider.state.records.spans import span

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


def _at(wall_ms: int) -> datetime:
    """The time; one beyond Python's calendar, which a record may have, is shown as the calendar's last one."""
    return datetime.fromtimestamp(min(wall_ms // 1000, _LAST_S), tz=timezone.utc)
