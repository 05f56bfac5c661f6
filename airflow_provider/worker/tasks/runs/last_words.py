"""Tasks that wait for the last word of the process that had them.

A process that gives a task up writes that it has stopped, and releases the task when this is stored. The group may be
faster than the topic: the task's next worker then gets it while the task's record, as far as it was read, still says
that it is running, as if that process had ended without a word. So this worker writes its own record, and looks again
when it has read that back: then it has read all that was written before.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import WorkerStatus
from airflow_provider.values.model import TaskId, Tasks

_LONGEST_MS: Final = 30_000
"""A record that is not stored by then was given up: this worker goes by what it has read."""


class LastWords:
    """Which tasks wait. They wait together: for a record that was written when the last of them had come, but not for
    longer than the first of them may wait.
    """

    def __init__(self) -> None:
        self._tasks: set[TaskId] = set()
        self._since_ms = self._until_ms = 0

    def __bool__(self) -> bool:
        return bool(self._tasks)

    @property
    def tasks(self) -> Tasks:
        return frozenset(self._tasks)

    @property
    def since_ms(self) -> int:
        """When the last of them began to wait (wall clock); 0: none waits."""
        return self._since_ms if self._tasks else 0

    @property
    def until_ms(self) -> int | None:
        """Until when they wait at most (monotonic milliseconds); None: none waits."""
        return self._until_ms if self._tasks else None

    def wait_for(self, task: TaskId, *, now_ms: int, wall_ms: int) -> None:
        if not self._tasks:
            self._until_ms = now_ms + _LONGEST_MS
        self._tasks.add(task)
        self._since_ms = wall_ms

    def forget(self, task: TaskId) -> bool:
        """:returns: whether the task was waiting"""
        waited = task in self._tasks
        self._tasks.discard(task)
        return waited

    def forget_all(self) -> None:
        self._tasks.clear()

    def are_read(self, own: WorkerStatus | None) -> bool:
        """Whether all has been read that could be written about them.

        :param own: the record that this process has written of its worker, as it was read back
        """
        return own is not None and own.at_ms >= self._since_ms
