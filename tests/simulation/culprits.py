"""Tasks that end their worker's process when their code is called, as ``os._exit`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World

NEVER: Final = 1_000


class Culprits:
    """Which tasks do so, and how often they have.

    :ivar max_deaths: the limit of all workers; none by default, because histories kill processes all the time
    :ivar after_ms: by task, how long after its start it ends the process
    :ivar back_ms: from and to after how long the worker is back
    """

    def __init__(self, world: World) -> None:
        self.max_deaths = NEVER
        self.after_ms: dict[TaskId, int] = {}
        self.back_ms = (100, 5_000)
        self.deaths = 0
        self._world = world

    def called(self, process: Process, task: TaskId) -> None:
        """The task's code is called in this process."""
        if task in self.after_ms:
            start = process.running[task]
            self._world.clock.after(self.after_ms[task], lambda: self._end(process, task, start))

    def _end(self, process: Process, task: TaskId, start: int) -> None:
        if process.alive and process.running.get(task) == start:
            self.deaths += 1
            self._world.note(f"{process.name:8} ---- is ended by {task}")
            self._world.bounce(process.worker, process.rng.randint(*self.back_ms))
