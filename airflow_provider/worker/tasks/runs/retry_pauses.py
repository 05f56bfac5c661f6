"""Pauses between tries, which grow up to a limit."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from airflow_provider.values.model import TaskId

_FIRST_IN_CONFLICT_MS: Final = 1_000
_LONGEST_IN_CONFLICT_MS: Final = 60_000
_FIRST_FOR_ROOM_MS: Final = 2_000
_LONGEST_FOR_ROOM_MS: Final = 60_000
_LONGEST_RETRY_MS: Final = 300_000
"""Unless a job's own delay is longer."""
_LEAST_STEP_MS: Final = 1_000
"""From here the pause grows if the job's own delay is shorter."""


def doubling_ms(first_ms: int, tries: int, longest_ms: int) -> int:
    """The pause after this many tries in vain, in milliseconds: it doubles with each, up to ``longest_ms``."""
    return min(first_ms << min(max(0, tries - 1), 30), longest_ms)


def conflict_pause_ms(conflicts: int) -> int:
    """The pause of a task that waits for another writer, after this many conflicts in a row; 0: there was none."""
    return doubling_ms(_FIRST_IN_CONFLICT_MS, conflicts, _LONGEST_IN_CONFLICT_MS) if conflicts else 0


def longest_retry_ms(delay_ms: int, failures: int) -> int:
    """The longest pause after this many failures in a row.

    :param delay_ms: the job's own delay
    """
    if failures <= 1:
        return delay_ms
    return doubling_ms(max(delay_ms, _LEAST_STEP_MS), failures, max(delay_ms, _LONGEST_RETRY_MS))


def retry_pause_ms(task: TaskId, delay_ms: int, failures: int) -> int:
    """The pause of a task after this many failures in a row. The first one is the job's own delay. Each further one is
    between the longest one before it and its own longest one. Where in between depends on the task, so that tasks which
    fail together are not all tried again together.
    """
    return _between(longest_retry_ms(delay_ms, failures - 1), longest_retry_ms(delay_ms, failures), task, failures)


def room_pause_ms(task: TaskId, tries: int) -> int:
    """The pause of a task for which Spark has had no capacity left, after this many tries in a row. All that wait would
    otherwise come back together.
    """
    most_ms = doubling_ms(_FIRST_FOR_ROOM_MS, tries, _LONGEST_FOR_ROOM_MS)
    return _between(most_ms // 2, most_ms, task, tries)


def _between(least_ms: int, most_ms: int, task: TaskId, tries: int) -> int:
    share = crc32(f"{task} {tries}".encode()) / 2**32
    return least_ms + round((most_ms - least_ms) * share)
