"""What tasks cost, and how many slots they take, as far as a leader knows. If this differs between tasks, work is
shared out by cost instead of by number.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What bounded tasks cost. Streams have no cost, because they do not end.

    :param of: the cost of each task, in any unit
    :param left: of running tasks: how much of the cost is left
    :param large: the slots of each task that takes more than one, streams included
    :param slots: the slots of each member. A missing one, as of each worker that a bridge stands for, counts as 1 where
        work is shared out by cost, and as the mean of the others where it is shared out by number
    """

    of: Mapping[TaskId, float] = field(default_factory=dict)
    left: Mapping[TaskId, float] = field(default_factory=dict)
    large: Mapping[TaskId, int] = field(default_factory=dict)
    slots: Mapping[WorkerId, int] = field(default_factory=dict)

    def beside(self, others: Mapping[WorkerId, int]) -> Costs:
        """These costs, if other tasks, which never end or may not move, take this many slots of each member."""
        return replace(self, slots={worker: self.slots.get(worker, 1) - number for worker, number in others.items()})

    def at(self, slots: Mapping[WorkerId, int]) -> Costs:
        """These costs, with the slots that the members themselves have told."""
        return replace(self, slots={**self.slots, **slots})

    def slots_of(self, task: TaskId) -> int:
        """How many slots the task takes, if its worker has that many."""
        return self.large.get(task, 1)

    def taken_by(self, tasks: Tasks) -> int:
        """How many slots these tasks take together."""
        return len(tasks) + sum([self.large[task] - 1 for task in self.large.keys() & tasks])

    def wide(self, tasks: Tasks, workers: Iterable[WorkerId]) -> dict[int, Tasks]:
        """Those of these tasks that take more than one slot, by their size, the largest first. None is larger than the
        largest worker.
        """
        most = max([self.slots.get(worker, 0) for worker in workers]) or sys.maxsize
        by_size: defaultdict[int, list[TaskId]] = defaultdict(list)
        for task in tasks & self.large.keys() if most > 1 else ():
            by_size[min(self.large[task], most)].append(task)
        return {size: frozenset(by_size[size]) for size in sorted(by_size, reverse=True)}

    def among(self, tasks: Tasks) -> Tasks:
        """Those of these tasks that are shared out by cost: none if all known tasks are of the same size."""
        sizes = zip(self.of.values(), map(self.slots_of, self.of), strict=True)
        first = next(sizes, None)
        return tasks & self.of.keys() if any(size != first for size in sizes) else NO_TASKS


NO_COSTS: Final = Costs()
