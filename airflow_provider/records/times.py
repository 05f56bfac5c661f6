"""Times of the wall clock in words."""

from __future__ import annotations

from datetime import datetime, timezone


def time_in_words(wall_ms: int) -> str:
    """To the second, for people.

    :param wall_ms: milliseconds since 1970
    """
    return f"{datetime.fromtimestamp(wall_ms // 1000, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
