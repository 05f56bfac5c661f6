"""Tasks that wait for the last words of the process that had them.

A process that gives a task up writes that it has stopped, and releases the task when this is stored. The task's next
worker may get it before it has read this. To that worker, the task still seems to run, as if the process had ended
without a word. So it writes its own record, and looks again when it has read that back: by then it has read everything
that was written before.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.views.presence import is_same_process
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import TaskId, Tasks, WorkerId

_LONGEST_MS: Final = 30_000
"""If the worker's record is not stored by then, it goes by what it has read."""


class LastWords:
    """Which tasks wait. They wait together: for a record that was written after the last of them had come, but not for
    longer than the first of them may wait.

    :param worker: who has the tasks now
    :param process: the identity of this process; None: it is a triggerer, whose records name no process
    """

    def __init__(self, worker: WorkerId, process: str | None) -> None:
        self._worker = worker
        self._process = process
        self._tasks: set[TaskId] = set()
        self._since_ms = self._until_ms = 0

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._tasks

    @property
    def tasks(self) -> Tasks:
        return frozenset(self._tasks)

    @property
    def since_ms(self) -> int:
        """When the last of them came (wall clock); 0: none waits."""
        return self._since_ms if self._tasks else 0

    @property
    def until_ms(self) -> int | None:
        """When they wait no longer (monotonic clock); None: none waits."""
        return self._until_ms if self._tasks else None

    def wait_for(self, task: TaskId, *, now_ms: int, wall_ms: int) -> None:
        """Wait for the last words about this task.

        :param now_ms: the monotonic clock
        :param wall_ms: the wall clock
        """
        if not self._tasks:
            self._until_ms = now_ms + _LONGEST_MS
        self._tasks.add(task)
        self._since_ms = wall_ms

    def forget(self, task: TaskId) -> bool:
        """Wait no longer for the last words about this task.

        :returns: whether it was waiting
        """
        waited = task in self._tasks
        self._tasks.discard(task)
        return waited

    def forget_all(self) -> None:
        self._tasks.clear()

    def are_read_in(self, status: StatusSnapshot) -> bool:
        """Whether this status has a record that this process has written of its worker since the last of them came.
        Then it also has everything that was written about them before. False if none waits.
        """
        own = status.workers.get(self._worker)
        if own is None or not self._tasks:
            return False
        is_ours = self._process is None or is_same_process(own.process, self._process)
        return is_ours and own.at_ms >= self._since_ms
