"""What tasks cost, and how many slots they take, as far as a leader knows: what makes it share out work, and not
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What tasks cost that come to an end: only of them it can be said how much of them is left.

    :param of: by task, in any unit; where all cost the same and take as many slots, numbers say as much
    :param left: of those that run what is left of that
    :param large: how many slots those take that take more than one, also of what never ends
    :param slots: how many members have; 1 where not given, as for each worker for which a bridge stands
    """

    of: Mapping[TaskId, float] = field(default_factory=dict)
    left: Mapping[TaskId, float] = field(default_factory=dict)
    large: Mapping[TaskId, int] = field(default_factory=dict)
    slots: Mapping[WorkerId, int] = field(default_factory=dict)

    def beside(self, others: Mapping[WorkerId, int]) -> Costs:
        """The same where other tasks, which never end or may not move, take so many slots of members."""
        return replace(self, slots={worker: self.slots.get(worker, 1) - number for worker, number in others.items()})

    def slots_of(self, task: TaskId) -> int:
        """How many it takes, if its worker has so many."""
        return self.large.get(task, 1)

    def taken_by(self, tasks: Tasks) -> int:
        """How many slots they take together."""
        return len(tasks) + sum([self.large[task] - 1 for task in self.large.keys() & tasks])

    def among(self, tasks: Tasks) -> Tasks:
        """Those that are shared out by what they cost."""
        sizes = zip(self.of.values(), map(self.slots_of, self.of), strict=True)
        first = next(sizes, None)
        return tasks & self.of.keys() if any(size != first for size in sizes) else NO_TASKS


NO_COSTS: Final = Costs()
