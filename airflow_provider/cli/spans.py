"""How long something took, or has been going on, in words."""

from __future__ import annotations

from airflow_provider.kafka.records import TaskState, TaskStatus


def span(ms: int) -> str:
    """:param ms: milliseconds; clocks of two hosts may make it negative, which is shown as none"""
    seconds = max(0, ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds) // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"


def took_ms(told: TaskStatus) -> int | None:
    """How long the last attempt took; None if it has not ended, or its record does not say."""
    if told.started_at_ms is None or told.finished_at_ms is None or told.state is TaskState.RUNNING:
        return None
    return max(0, told.finished_at_ms - told.started_at_ms)


def running_ms(told: TaskStatus, wall_ms: int) -> int | None:
    """For how long the task has been running; None if it is not, or its record does not say.

    :param wall_ms: now, milliseconds since 1970
    """
    if told.state is not TaskState.RUNNING or told.started_at_ms is None:
        return None
    return max(0, wall_ms - told.started_at_ms)
