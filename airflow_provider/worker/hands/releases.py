"""Releases stopped tasks when the records that say so are stored.

The task's next worker may have it a moment later. It reads the status topic up to a record of its own
(``worker/tasks/runs/last_words.py``). If the record of the stop were written after that, the task would still be said
to run, and this process would be taken for dead.

When a lease is over, or the worker leaves, nothing is waited for: nobody gets a task by these releases, and the worker
has said that it leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.hands.port import Released

_LONGEST_MS: Final = 5_000
"""The group waits for revoked tasks, so it waits no longer than this if the topic can't be written."""


class Releases:
    """The tasks that are to be released, and the records that are being written.

    :param release: tells the membership
    :param soon: calls something in the next turn, when other records may be stored, too
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
        self._soon = False

    def __bool__(self) -> bool:
        """Whether a task waits."""
        return bool(self._waiting)

    def writing(self, task: TaskId) -> Callable[[], None]:
        """The record that the task has stopped is being written.

        :returns: to be called when it is stored, or can't be
        """
        this = self._writing[task] = object()

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
            self._let_go(tasks - unwritten)

    def release_all(self) -> None:
        """Release all that wait."""
        if self._waiting:
            self._let_go(frozenset(self._waiting))

    def forget(self, tasks: Tasks) -> None:
        """Release none of these any more: the membership has given them again."""
        for task in tasks:
            self._waiting.pop(task, None)

    def wait_not_for(self, tasks: Tasks) -> None:
        """Release these at once, whatever is being written of them."""
        for task in tasks:
            self._writing.pop(task, None)
        if waiting := tasks & self._waiting.keys():
            self._let_go(waiting)

    def _let_go(self, tasks: Tasks) -> None:
        self.forget(tasks)
        self._release(tasks)

    def _give_up(self, this: object) -> None:
        if late := frozenset(task for task, release in self._waiting.items() if release is this):
            self._let_go(late)

    def _look_soon(self) -> None:
        if self._waiting and not self._soon:
            self._soon = True
            self._call_soon(self._look)

    def _look(self) -> None:
        self._soon = False
        if written := frozenset(self._waiting.keys() - self._writing.keys()):
            self._let_go(written)
