"""Tasks of known costs, shared out so that the last one ends as early as it can be told.

Each slot of each worker is a machine. If all were always busy they would be done at one time, the *level*. What waits
stays where it is, and what nobody has goes to the machine that is free first, the longest task first (Graham's LPT). If
machines would be late by that, workers give up what they would not have done by the level, or hardly later, and that
goes the same way. It is done only if they are less late then, so what has been shared out comes to rest. What runs
always stays: stopped, it would lose what it has done.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace, nlargest
from itertools import accumulate
from typing import Final

from airflow_provider.assignors.balance import NO_LIMIT
from airflow_provider.assignors.costs import Costs
from airflow_provider.assignors.model import Load
from airflow_provider.assignors.shares import Shares
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId

_HARDLY: Final = 0.1
"""Of the level: by so much later a task may end where it is."""

_Places = Mapping[TaskId, WorkerId]


class CostPool:
    """The work of known costs, as a round moves it: what :class:`.balance.Pool` is for the rest.

    :param kept: every member and what it goes on with of this kind
    :param own: what some members are to get again, and nobody runs
    :param free: what else nobody runs
    :param calm: whether all stays that is kept, as in a round that places what the one before has taken: there is
        always some more to gain, and each such round would be followed by another
    """

    __slots__ = ("_costs", "_kept", "_spare", "_targets", "over", "returned")

    returned: Shares
    """Of each member's own what does not end sooner elsewhere."""
    over: Mapping[WorkerId, Load]
    """Who gives something up: how many tasks it has, and how many it may keep."""

    def __init__(self, kept: Shares, own: Shares, free: Tasks, costs: Costs, *, calm: bool = False) -> None:
        self._costs, self._kept = costs, kept
        homes = {task: worker for shares in (own, kept) for worker, tasks in shares.items() for task in tasks}
        waiting = (homes.keys() | free) - (costs.left.keys() & NO_TASKS.union(*kept.values()))
        sharing = _Sharing(kept, waiting, costs)
        self._targets = sharing.staying(homes) if calm else sharing.evened_out(homes)
        moving = {worker: len(tasks) for worker, tasks in self._moving().items()}
        self.over = {worker: Load(len(kept[worker]), len(kept[worker]) - number) for worker, number in moving.items()}
        targets = self._targets
        self.returned = {
            worker: frozenset([task for task in tasks if targets[task] == worker]) for worker, tasks in own.items()
        }
        self._spare = NO_TASKS.union(*own.values()).difference(*self.returned.values())

    @property
    def stops(self) -> int:
        """How many tasks would end sooner elsewhere."""
        return sum(load.has - load.share for load in self.over.values())

    def relieve(self, _rank: Mapping[TaskId, int], most_stops: int = NO_LIMIT) -> Shares:
        """Take from each worker what would end sooner elsewhere: the longest first, if not all may be taken.

        :param most_stops: no more than this are taken, over all workers
        :return: what was taken, by worker
        """
        moving = [(task, worker) for worker, tasks in self._moving().items() for task in tasks]
        if len(moving) > most_stops:
            moving = nlargest(most_stops, moving, key=lambda way: (self._costs.of[way[0]], way))
        taken: defaultdict[WorkerId, set[TaskId]] = defaultdict(set)
        for task, worker in moving:
            taken[worker].add(task)
        return {worker: frozenset(tasks) for worker, tasks in taken.items()}

    def place(self, tasks: Tasks) -> dict[WorkerId, list[TaskId]]:
        """Give each task to the worker where it ends first, with them what members do not get again.

        :return: what was given, by worker
        """
        given: defaultdict[WorkerId, list[TaskId]] = defaultdict(list)
        for task in tasks | self._spare:
            given[self._targets[task]].append(task)
        return given

    def _moving(self) -> dict[WorkerId, list[TaskId]]:
        moving = {
            worker: [task for task in tasks if self._targets.get(task, worker) != worker]
            for worker, tasks in self._kept.items()
        }
        return {worker: tasks for worker, tasks in moving.items() if tasks}


class _Sharing:
    """Ways to share out what waits, over machines that are busy with what runs.

    :param kept: every member and what it goes on with
    """

    __slots__ = ("_costs", "_kept", "_level", "_waiting")

    def __init__(self, kept: Shares, waiting: Iterable[TaskId], costs: Costs) -> None:
        self._costs, self._kept = costs, kept
        self._waiting = sorted(waiting, key=lambda task: (-costs.of[task], task))
        self._level = self._machines().level(sum(costs.of[task] for task in self._waiting))

    def _machines(self) -> _Machines:
        return _Machines(self._kept, self._costs)

    def staying(self, homes: _Places) -> _Places:
        """All stays that somebody has."""
        return self._placed(homes)[0]

    def evened_out(self, homes: _Places) -> _Places:
        """Of that stays what is done in time, if so machines are less late."""
        hardly = _HARDLY * self._level
        places, late = self._placed(homes)
        while late > hardly:
            in_time = self._done_in_time(places)
            fewer = {task: home for task, home in homes.items() if task in in_time}
            moved, then_late = self._placed(fewer)
            if then_late >= late - hardly:
                break
            homes, places, late = fewer, moved, then_late
        return places

    def _placed(self, homes: _Places) -> tuple[_Places, float]:
        """Where each task goes, and for how long machines are busy after the level: all together, without those that
        hardly are.
        """
        machines, costs = self._machines(), self._costs.of
        places = {task: homes[task] for task in self._waiting if task in homes}
        for task, home in places.items():
            machines.add(home, costs[task])
        for task in self._waiting:
            if task not in homes:
                places[task] = machines.first()
                machines.add(places[task], costs[task])
        return places, machines.busy_after(self._latest)

    def _done_in_time(self, places: _Places) -> set[TaskId]:
        """The longest first. What is not goes elsewhere, before what is shorter."""
        machines, costs, latest = self._machines(), self._costs.of, self._latest
        in_time = set()
        for task in self._waiting:
            place, cost = places[task], costs[task]
            if machines.free_at(place) + cost <= latest:
                in_time.add(task)
            else:
                place = machines.first()
            machines.add(place, cost)
        return in_time

    @property
    def _latest(self) -> float:
        return (1 + _HARDLY) * self._level


class _Machines:
    """The slots of all workers, each with the time at which it will be free: never, where other work has them all."""

    __slots__ = ("_free_at", "_order", "_sums")

    def __init__(self, kept: Shares, costs: Costs) -> None:
        self._free_at = {
            worker: [0.0] * slots if (slots := costs.slots.get(worker, 1)) > 0 else [math.inf] for worker in kept
        }
        self._sums = dict.fromkeys(kept, 0.0)
        # The worker that is free first, of these the one with the least to do; empty until somebody asks. What is out
        # of date is passed over.
        self._order: list[tuple[float, float, WorkerId]] = []
        for worker, tasks in kept.items():
            for left in sorted((costs.left[task] for task in tasks & costs.left.keys()), reverse=True):
                self.add(worker, left)

    def _turn(self, worker: WorkerId) -> tuple[float, float, WorkerId]:
        return self._free_at[worker][0], self._sums[worker], worker

    def level(self, work: float) -> float:
        """When all would be done with this, too, if they were always busy until then; never, if all never are free."""
        free_at = sorted(at for slots in self._free_at.values() for at in slots)
        sums = list(accumulate(free_at))
        levels = ((work + total) / number for number, total in enumerate(sums, 1))
        return min(levels)

    def busy_after(self, time: float) -> float:
        """Those that never are free are late with all that they are given."""
        return sum(
            self._sums[worker] if at == math.inf else at - time
            for worker, slots in self._free_at.items()
            for at in slots
            if at > time
        )

    def free_at(self, worker: WorkerId) -> float:
        return self._free_at[worker][0]

    def first(self) -> WorkerId:
        if not self._order:
            self._order = [self._turn(worker) for worker in self._free_at]
            heapify(self._order)
        while self._order[0] != self._turn(self._order[0][-1]):
            heappop(self._order)
        return self._order[0][-1]

    def add(self, worker: WorkerId, cost: float) -> None:
        free_at = self._free_at[worker]
        heapreplace(free_at, free_at[0] + cost)
        self._sums[worker] += cost
        if self._order:
            heappush(self._order, self._turn(worker))
