"""Tasks that end their worker's process when their code is called, as ``os._exit`` does; or only its Spark."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World

NEVER: Final = 1_000
MAX_DEATHS: Final = 3


class Culprits:
    """Which tasks do so, and how often they have.

    :ivar max_deaths: the limit of all workers; none by default, because histories kill processes all the time
    :ivar end_spark: whether they end only Spark
    :ivar after_ms: by task, how long after its start it does so
    :ivar troubled: the starts whose process has ended, lost its lease, or could not say what it did
    :ivar back_ms: from and to after how long the worker is back, if its process was ended
    """

    def __init__(self, world: World) -> None:
        self.max_deaths = NEVER
        self.end_spark = False
        self.after_ms: dict[TaskId, int] = {}
        self.back_ms = (100, 5_000)
        self.deaths = 0
        self.troubled: set[int] = set()
        self._world = world

    def called(self, process: Process, task: TaskId) -> None:
        """The task's code is called in this process."""
        if task in self.after_ms:
            start = process.running[task]
            self._world.clock.after(self.after_ms[task], lambda: self._end(process, task, start))

    @property
    def at_large(self) -> bool:
        """Whether one of them runs, or is a planner that waits, and so will do so again. Other tasks of a group at rest
        wait only for slots.
        """
        return any(
            task in process.running or (task.is_planner and task in process.tasks.held)
            for process in self._world.members
            for task in self.after_ms
        )

    def _end(self, process: Process, task: TaskId, start: int) -> None:
        if not process.alive or process.running.get(task) != start:
            return
        if not self.end_spark:
            self.deaths += 1
            self._world.note(f"{process.name:8} ---- is ended by {task}")
            self._world.bounce(process.worker, process.rng.randint(*self.back_ms))
        elif process.tasks.spark.runs(task):
            self.deaths += process.tasks.spark.end(task)


def most_deaths(tasks: int, workers: int) -> int:
    """How often one culprit ends processes, or Spark, at most: twice with all tasks together, then as often as halves
    the tasks of a worker, and twice with nothing but the culprit on trial. Each worker that gets the culprit for the
    first time may start it beside others once more.
    """
    return MAX_DEATHS + 1 + math.ceil(math.log2(tasks)) + workers - 1
