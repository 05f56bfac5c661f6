"""Durations in words."""

from __future__ import annotations


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
