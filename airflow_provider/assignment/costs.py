"""What tasks cost, and how many slots they take, as far as a leader knows. If this differs between tasks, work is
shared out by cost instead of by number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider.assignment.shares import Numbers, both, plus
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What bounded tasks cost. Streams have no cost, because they do not end.

    :param of: the cost of each task, in any unit
    :param left: of running tasks: how much of the cost is left
    :param large: the tasks that take more than one slot, streams included, by how many they take
    :param slots: the slots of each member. A missing one, as of each worker that a bridge stands for, counts as 1 where
        work is shared out by cost, and as the mean of the others where it is shared out by number
    :param stands_for: for how many workers a member stands, as the bridge of a declarative group does (KIP-848's
        migration); 1 if missing. It has the share of all of them
    """

    of: Mapping[TaskId, float] = field(default_factory=dict)
    left: Mapping[TaskId, float] = field(default_factory=dict)
    large: Mapping[int, Tasks] = field(default_factory=dict)
    slots: Numbers = field(default_factory=dict)
    stands_for: Numbers = field(default_factory=dict)

    def beside(self, others: Numbers) -> Costs:
        """These costs, if other tasks, which never end or may not move, take this many slots of each member."""
        workers = self.stands_for
        slots = {worker: self.slots.get(worker, workers.get(worker, 1)) - number for worker, number in others.items()}
        return replace(self, slots=slots)

    def at(self, slots: Numbers) -> Costs:
        """These costs, with the slots that the members themselves have told."""
        return replace(self, slots={**self.slots, **slots})

    @property
    def size_of(self) -> dict[TaskId, int]:
        """How many slots each large task takes, if its worker has that many."""
        return {task: size for size, tasks in self.large.items() for task in tasks}

    def wide(self, tasks: Tasks, workers: Iterable[WorkerId]) -> dict[int, Tasks]:
        """Those of these tasks that take more than one slot, by their size, the largest first. None is larger than the
        largest worker.
        """
        most = max([self.slots.get(worker, 0) for worker in workers]) or sys.maxsize
        wide: dict[int, Tasks] = {}
        for wants in sorted(self.large, reverse=True) if most > 1 else ():
            if of_size := both(tasks, self.large[wants]):
                size = min(wants, most)
                wide[size] = plus(wide.get(size, NO_TASKS), of_size)
        return wide

    def among(self, tasks: Tasks) -> Tasks:
        """Those of these tasks that are shared out by cost: none if all known tasks are of the same size."""
        size_of = self.size_of if self.of else {}
        sizes = ((cost, size_of.get(task, 1)) for task, cost in self.of.items())
        first = next(sizes, None)
        return tasks & self.of.keys() if any(size != first for size in sizes) else NO_TASKS


def slots_for(tasks: Tasks, large: Mapping[int, Tasks]) -> int:
    """How many slots these tasks take, if they take one each, and the large ones so many."""
    return len(tasks) + sum([(size - 1) * len(of_size & tasks) for size, of_size in large.items()])


NO_COSTS: Final = Costs()
