"""What the record of a task says of attempts that ended badly and are followed by others. A task that is tried again as
often as it takes has no end that could tell of its failures.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records.status_topic.task_failure import TaskFailure
from airflow_provider.state.records.status_topic.task_status import TaskState, TaskStatus

ALARM_AFTER: Final = 5
"""After this many failures in a row, the trouble is not momentary: with a delay of 10 s, about three minutes."""
GOOD_MS: Final = 600_000
"""A stream that has moved on for this long has gone well."""


def keeps_failing(status: TaskStatus) -> bool:
    """Whether people should know that the task fails again and again, and is tried again."""
    return not status.state.final and status.counted_failures >= ALARM_AFTER


def begins_to_keep_failing(status: TaskStatus) -> bool:
    """Whether it says so for the first time: it waits after the failure with which that began."""
    return status.state is TaskState.PENDING and status.counted_failures == ALARM_AFTER


def standing_error(status: TaskStatus) -> TaskFailure | None:
    """The last error, unless it is that of an earlier attempt, and the stream has run well since: with batches for ten
    minutes.
    """
    return None if _has_run_well(status) else status.error


def _has_run_well(status: TaskStatus) -> bool:
    if status.state is not TaskState.RUNNING or status.progress is None or status.started_at_ms is None:
        return False
    return status.stalled_since_ms is None and status.progress.at_ms - status.started_at_ms >= GOOD_MS


def conflicts_since(status: TaskStatus, before: TaskStatus | None) -> int:
    """How many attempts another writer has ended since that earlier record."""
    if before is None or before.conflict_since_ms != status.conflict_since_ms:
        return status.conflicts
    return max(0, status.conflicts - before.conflicts)
