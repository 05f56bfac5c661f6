"""Requests to retry tasks that failed for good."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks

if TYPE_CHECKING:
    from simulation.world import World


class Trials:
    """How often tasks were tried again.

    :ivar alone: the tasks that are retried while nothing else is going on, and that their workers keep
    """

    def __init__(self, world: World) -> None:
        self.alone: Tasks = NO_TASKS
        self._world = world
        self._times: Counter[TaskId] = Counter()
        self._after_round = -1

    def of(self, task: TaskId) -> int:
        """How often its retry was requested."""
        return self._times[task]

    def ask(self, tasks: Tasks, *, alone: bool) -> None:
        """Request it; everybody reads the request a while later."""
        world = self._world
        self._times.update(tasks)
        self.alone = tasks if alone else NO_TASKS
        self._after_round = len(world.coordinator.rounds)
        for process in world.everybody:
            if process.alive:
                read = partial(process.when_awake, process.tasks.read)
                world.clock.after(world.network.latency(process.rng) + 1, read)

    def go_on(self) -> None:
        """Something else happens."""
        self.alone = NO_TASKS

    @property
    def are_in_place(self) -> bool:
        """Whether there was no round since the last request."""
        return self._after_round == len(self._world.coordinator.rounds)
