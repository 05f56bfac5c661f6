"""Tasks of known costs, shared out so that the last one ends as early as it can be told.

Each slot of each worker is a machine, and a task takes one, or several of one worker at once. If all were always busy
they would be done at one time, the *level*. What waits stays where it is, and what nobody has goes where it can begin
first, the longest task first (Graham's LPT). If machines would be late by that, workers give up what they would not
have done by the level, or hardly later, and that goes the same way. It is done only if they are less late then, so what
has been shared out comes to rest. What runs always stays: stopped, it would lose what it has done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import repeat, takewhile
from typing import Final

from airflow_provider.assignors.balance import NO_LIMIT
from airflow_provider.assignors.costs import Costs
from airflow_provider.assignors.machines import NOWHERE, Slots, Work, after, area, deal, in_time, late, level
from airflow_provider.assignors.model import Load
from airflow_provider.assignors.shares import Shares, minus, plus
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId

_HARDLY: Final = 0.1
"""Of the level: by so much later a task may end where it is."""


class CostPool:
    """The work of known costs, as a round moves it: what :class:`.balance.Pool` is for the rest.

    :param kept: every member and what it goes on with of this kind
    :param own: what some members are to get again, and nobody runs
    :param free: what else nobody runs
    :param calm: whether all stays that is kept, as in a round that places what the one before has taken: there is
        always some more to gain, and each such round would be followed by another
    """

    __slots__ = ("_costs", "_given", "_moving", "_spare", "over", "returned")

    returned: Shares
    """Of each member's own what does not end sooner elsewhere."""
    over: Mapping[WorkerId, Load]
    """Who gives something up: how many tasks it has, and how many it may keep."""

    def __init__(self, kept: Shares, own: Shares, free: Tasks, costs: Costs, *, calm: bool = False) -> None:
        sharing = _Sharing(kept, own, free, costs)
        self._costs = costs
        self._given = sharing.staying() if calm else sharing.evened_out()
        elsewhere = NO_TASKS.union(*self._given.values())
        moving = {worker: tasks & elsewhere for worker, tasks in kept.items()} if elsewhere - free else {}
        self._moving = {worker: tasks for worker, tasks in moving.items() if tasks}
        self.over = {
            worker: Load(len(kept[worker]), len(kept[worker]) - len(tasks)) for worker, tasks in self._moving.items()
        }
        self.returned = {worker: minus(tasks, elsewhere) for worker, tasks in own.items()}
        self._spare = NO_TASKS.union(*own.values()) & elsewhere

    @property
    def stops(self) -> int:
        """How many tasks would end sooner elsewhere."""
        return sum(map(len, self._moving.values()))

    def relieve(self, _rank: Mapping[TaskId, int], most_stops: int = NO_LIMIT) -> Shares:
        """Take from each worker what would end sooner elsewhere: the longest first, if not all may be taken.

        :param most_stops: no more than this are taken, over all workers
        :return: what was taken, by worker
        """
        if self.stops <= most_stops:
            return self._moving
        moving = [(task, worker) for worker, tasks in self._moving.items() for task in tasks]
        taken: defaultdict[WorkerId, set[TaskId]] = defaultdict(set)
        for task, worker in nlargest(most_stops, moving, key=lambda way: (self._costs.of[way[0]], way)):
            taken[worker].add(task)
        return {worker: frozenset(tasks) for worker, tasks in taken.items()}

    def place(self, tasks: Tasks) -> Shares:
        """Give each task to the worker where it ends first, with them what members do not get again.

        :return: what was given, by worker
        """
        tasks = plus(tasks, self._spare)
        given = {worker: tasks & of_worker for worker, of_worker in self._given.items()}
        return {worker: of_worker for worker, of_worker in given.items() if of_worker}


class _Sharing:
    """Ways to share out what waits, over machines that are busy with what runs.

    See :class:`CostPool` for the parameters.
    """

    __slots__ = ("_homes", "_level", "_slots", "_tasks", "_work", "_workers")

    def __init__(self, kept: Shares, own: Shares, free: Tasks, costs: Costs) -> None:
        self._workers = sorted(kept)
        started = frozenset(costs.left)
        running = [kept[worker] & started for worker in self._workers]
        waiting = [
            plus(minus(kept[worker], runs), own.get(worker, NO_TASKS))
            for worker, runs in zip(self._workers, running, strict=True)
        ]
        self._slots = _slots(self._workers, running, costs)
        tasks, homes = list[TaskId](), list[int]()
        for home, of_home in enumerate(waiting):
            tasks += of_home
            homes += repeat(home, len(of_home))
        tasks += free
        homes += repeat(NOWHERE, len(free))
        by_task = list(map(costs.of.__getitem__, tasks))
        order = _longest_first(tasks, by_task)
        self._tasks = list(map(tasks.__getitem__, order))
        self._homes = list(map(homes.__getitem__, order))
        self._work = _work(self._tasks, map(by_task.__getitem__, order), costs, most=max(map(len, self._slots)))
        self._level = level(self._slots, area(self._work))

    def staying(self) -> Shares:
        """Who gets what nobody has, if all stays that somebody has."""
        return self._elsewhere(self._placed(self._homes))

    def evened_out(self) -> Shares:
        """Who gets what goes elsewhere, if of that what is done in time stays, and machines are less late for it."""
        places = self._placed(self._homes)
        if self._homes.count(NOWHERE) == len(self._homes):
            return self._elsewhere(places)
        most = self._late(places) - _HARDLY * self._level
        if most <= self._late_anyway():
            return self._elsewhere(places)
        then = self._as_next_round(in_time(self._work, self._homes, self._slots, self._latest))
        return self._elsewhere(then if self._late(then) < most else places)

    def _as_next_round(self, stay: Sequence[int]) -> list[int]:
        """Where the next round places what this one takes: it finds at home what does not move after all."""
        while True:
            places = self._placed(stay)
            at_home = [home if home == place else NOWHERE for home, place in zip(self._homes, places, strict=True)]
            moving = at_home.count(NOWHERE)
            if stay.count(NOWHERE) - moving <= _HARDLY * moving:
                return places
            stay = at_home

    @property
    def _latest(self) -> float:
        return self._level * (1 + _HARDLY)

    def _placed(self, homes: Sequence[int]) -> list[int]:
        """By task its worker, if what has no home goes to who is free first when all that has one is done."""
        places = list(homes)
        free = [place for place, home in enumerate(homes) if home == NOWHERE]
        if not free:
            return places
        busy = [after(slots, work) for slots, work in zip(self._slots, self._by_worker(homes), strict=True)]
        for place, worker in zip(free, deal([self._work[place] for place in free], busy), strict=True):
            places[place] = worker
        return places

    def _late(self, places: Sequence[int]) -> float:
        """For how long all machines together are busy after the level, without those that hardly are."""
        by_worker = zip(self._slots, self._by_worker(places), strict=True)
        return sum([late(slots, work, self._latest) for slots, work in by_worker])

    def _late_anyway(self) -> float:
        """What takes longer than that by itself is late wherever it is."""
        longest = takewhile(lambda work: work[0] > self._latest, self._work)
        return sum([(cost - self._latest) * wide for cost, wide in longest])

    def _by_worker(self, places: Sequence[int]) -> list[list[Work]]:
        """What each has to do."""
        work: list[list[Work]] = [[] for _ in self._workers]
        for task, worker in zip(self._work, places, strict=True):
            if worker != NOWHERE:
                work[worker].append(task)
        return work

    def _elsewhere(self, places: Sequence[int]) -> Shares:
        given = defaultdict[int, list[TaskId]](list)
        for task, home, place in zip(self._tasks, self._homes, places, strict=True):
            if home != place:
                given[place].append(task)
        return {self._workers[place]: frozenset(tasks) for place, tasks in given.items()}


def _slots(workers: Sequence[WorkerId], running: Sequence[Tasks], costs: Costs) -> list[Slots]:
    """When they are free of what runs. Where other work has all of all workers, each counts as having one."""
    number = [max(0, costs.slots.get(worker, 1)) for worker in workers]
    if not any(number):
        number = [1] * len(workers)
    left = [sorted([(costs.left[task], costs.slots_of(task)) for task in tasks], reverse=True) for tasks in running]
    return [after([0.0] * slots, of_worker) for slots, of_worker in zip(number, left, strict=True)]


def _work(tasks: Sequence[TaskId], of_each: Iterable[float], costs: Costs, *, most: int) -> list[Work]:
    """:param most: slots that any worker has: a task never takes more"""
    wide = [min(costs.slots_of(task), most) for task in tasks] if costs.large else repeat(1, len(tasks))
    return list(zip(of_each, wide, strict=True))


def _longest_first(tasks: Sequence[TaskId], costs: Sequence[float]) -> list[int]:
    """Their places, in order; of equals the first name first. Sorts by one plain value each are the quickest."""
    by_index = sorted(range(len(tasks)), key=[task[1] for task in tasks].__getitem__)
    by_name = sorted(by_index, key=[task[0] for task in tasks].__getitem__)
    return sorted(by_name, key=costs.__getitem__, reverse=True)
