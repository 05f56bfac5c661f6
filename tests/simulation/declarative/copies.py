"""The copies of tasks that run in one process, and whether they may write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.values.model import Epoch, TaskId, Tasks

if TYPE_CHECKING:
    from simulation.declarative.process import Process


@dataclass(slots=True)
class Copy:
    """:param grant: of the process's lease at its start; once this grant has ended, the copy is fenced for ever"""

    epoch: Epoch
    grant: int
    stopping: bool = False


class Copies:
    """As in ``worker.lease`` and the fence of a task.

    :ivar running: the running tasks, also while they stop
    """

    def __init__(self, process: Process, stop_ms: tuple[int, int]) -> None:
        self._process = process
        self.stop_ms = stop_ms
        self._grant = 0
        self.running: dict[TaskId, Copy] = {}

    def may_write(self, task: TaskId) -> bool:
        copy = self.running.get(task)
        return copy is not None and copy.grant == self._grant and self._process.lease_is_valid

    @property
    def writing(self) -> Tasks:
        return frozenset(task for task in self.running if self.may_write(task))

    def start(self, tasks: Tasks, epoch: Epoch) -> None:
        world = self._process.world
        for task in sorted(tasks):
            assert task not in self.running, f"{task} is started twice in {self._process.name}"
            self.running[task] = Copy(epoch, self._grant)
            world.started(self._process, task, epoch)

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        if reason.ends_lease:
            self._grant += 1
        clock, rng = self._process.world.clock, self._process.rng
        for task in tasks:
            if task in self.running:
                self.running[task].stopping = True
        stopping = frozenset(task for task in tasks if task in self.running)
        for task in sorted(stopping):
            clock.after(rng.randint(*self.stop_ms), lambda task=task: self._has_stopped(task))  # type: ignore[misc]
        if tasks != stopping:
            clock.after(0, lambda: self._process.stopped(tasks - stopping))

    def remove(self, task: TaskId) -> None:
        del self.running[task]
        self._process.world.stopped(self._process, task)

    def end(self) -> None:
        """End all copies with their process."""
        for task in list(self.running):
            self.remove(task)

    def _has_stopped(self, task: TaskId) -> None:
        copy = self.running.get(task)
        if copy is None or not copy.stopping:
            return
        if self._process.asleep:
            self._process.world.clock.after(100, lambda: self._has_stopped(task))
            return
        self.remove(task)
        self._process.stopped(frozenset({task}))
