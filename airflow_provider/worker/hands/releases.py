"""Releases stopped tasks when the records that say so are stored.

The task's next worker may have it a moment later, and reads the status topic up to a record of its own
(``worker/tasks/runs/last_words.py``). If the record of the stop came after that, the task would seem to run still, and
this process would be taken for dead.

When the lease is over, or the worker leaves, tasks are released at once. In the first case, others get them in any
case. In the second, the worker's own record says that it leaves, and nobody takes it for dead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks
from airflow_provider.worker.hands.port import Released

_LONGEST_MS: Final = 5_000
"""The whole group waits for revoked tasks. If the topic can't be written, it waits no longer than this."""


class Releases:
    """The tasks that are to be released, and the records of them that are being written.

    :param release: tells the membership
    :param soon: calls something in the next turn of the loop, when other records may be stored, too
    :param later: calls something after a number of milliseconds
    """

    def __init__(
        self,
        release: Released,
        *,
        soon: Callable[[Callable[[], None]], object],
        later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self._release = release
        self._call_soon = soon
        self._call_later = later
        self._writing: dict[TaskId, object] = {}
        self._waiting: dict[TaskId, object] = {}
        self._at_once: Tasks = NO_TASKS
        self._soon = False

    def __bool__(self) -> bool:
        """Whether a task waits."""
        return bool(self._waiting)

    def writing(self, task: TaskId) -> Callable[[], None]:
        """The record that the task has stopped is being written.

        :returns: to be called when it is stored, or can't be
        """
        this = object()
        if task not in self._at_once:
            self._writing[task] = this

        def written() -> None:
            if self._writing.get(task) is this:
                del self._writing[task]
                self._look_soon()

        return written

    def release(self, tasks: Tasks) -> None:
        """Release these, each as soon as its record is stored."""
        this, unwritten = object(), tasks & self._writing.keys()
        self._waiting.update(dict.fromkeys(unwritten, this))
        if unwritten:
            self._call_later(_LONGEST_MS, lambda: self._give_up(this))
        if unwritten != tasks:
            self._release_now(tasks - unwritten)

    def release_all(self) -> None:
        if self._waiting:
            self._release_now(frozenset(self._waiting))

    def forget(self, tasks: Tasks) -> None:
        """Forget that these were to be released: the membership has given them again."""
        self._at_once -= tasks
        self._wait_no_longer(tasks)

    def wait_for_no_record(self, tasks: Tasks) -> None:
        """Wait for no record of these, until they are given again: release what waits."""
        self._at_once |= tasks
        for task in tasks:
            self._writing.pop(task, None)
        if waiting := tasks & self._waiting.keys():
            self._release_now(waiting)

    def _wait_no_longer(self, tasks: Tasks) -> None:
        for task in tasks:
            self._waiting.pop(task, None)

    def _release_now(self, tasks: Tasks) -> None:
        self._wait_no_longer(tasks)
        self._release(tasks)

    def _give_up(self, this: object) -> None:
        if late := frozenset(task for task, release in self._waiting.items() if release is this):
            self._release_now(late)

    def _look_soon(self) -> None:
        if self._waiting and not self._soon:
            self._soon = True
            self._call_soon(self._look)

    def _look(self) -> None:
        self._soon = False
        if written := frozenset(self._waiting.keys() - self._writing.keys()):
            self._release_now(written)
