"""Reports a worker's progress with what it learns: first in its own record, where the task's owner reads it, and then
to its membership, which may start a rebalance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks

_EVERY_S: Final = 1.0
"""The least time between two reports. What is ready or has failed is reported immediately: somebody waits for it."""

Progress = Mapping[TaskId, float]


class LearningReport:
    """The reports of one worker, from when it joins until it leaves.

    :param ready_from: from this progress on a task may move here
    :param progress: gives the progress of each task, from 0 to 1
    :param failed: gives the tasks whose warm-up has failed for good
    :param write: writes both, and calls back with whether they are stored
    :param tell: called with both when they are stored
    """

    def __init__(
        self,
        *,
        ready_from: float,
        progress: Callable[[], Progress],
        failed: Callable[[], AbstractSet[TaskId]],
        write: Callable[[Callable[[bool], None]], None],
        tell: Callable[[Progress, Tasks], None],
    ) -> None:
        self._ready_from = ready_from
        self._progress = progress
        self._failed = failed
        self._write = write
        self._tell = tell
        self._said: Progress = {}
        self._seen: Progress = {}
        self._said_failed = NO_TASKS
        self._not_before = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Report changes: what is ready or has failed immediately, the rest when it is due."""
        progress, failed, seen = dict(self._progress()), frozenset(self._failed()), self._seen
        self._seen = progress
        if progress == self._said == seen and failed == self._said_failed:
            return
        loop = asyncio.get_running_loop()
        ready = any(seen.get(task, 0.0) < self._ready_from <= far for task, far in progress.items())
        if ready or failed - self._said_failed or loop.time() >= self._not_before:
            self._say(progress, failed)
        elif self._timer is None:
            self._timer = loop.call_at(self._not_before, self._look_again)

    def close(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self) -> None:
        self._timer = None
        self.look()

    def _say(self, progress: Progress, failed: Tasks) -> None:
        self._said, self._said_failed = progress, failed
        loop = asyncio.get_running_loop()
        self._not_before = loop.time() + _EVERY_S

        def tried(stored: bool) -> None:
            if stored:
                self._tell(progress, failed)
                return
            self._said, self._seen, self._said_failed = {}, {}, NO_TASKS
            if self._timer is None:
                self._timer = loop.call_later(_EVERY_S, self._look_again)

        self._write(tried)
