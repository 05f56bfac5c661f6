"""What tasks cost, as far as a leader knows: what makes it share out work, and not numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What tasks cost that come to an end: only of them it can be said how much of them is left.

    :param of: by task, in any unit; where all cost the same, numbers say as much
    :param left: of those that run what is left of that
    :param slots: how many of them members run together; 1 where not given, as for each worker for which a bridge stands
    """

    of: Mapping[TaskId, float] = field(default_factory=dict)
    left: Mapping[TaskId, float] = field(default_factory=dict)
    slots: Mapping[WorkerId, int] = field(default_factory=dict)

    def beside(self, others: Mapping[WorkerId, int]) -> Costs:
        """The same where members have so many other tasks, which never end or may not move: each takes a slot."""
        return replace(self, slots={worker: self.slots.get(worker, 1) - number for worker, number in others.items()})

    def among(self, tasks: Tasks) -> Tasks:
        """Those that are shared out by what they cost."""
        costs = iter(self.of.values())
        first = next(costs, None)
        return tasks & self.of.keys() if any(cost != first for cost in costs) else NO_TASKS


NO_COSTS: Final = Costs()
