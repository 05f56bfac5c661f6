"""Shares out tasks of known cost so that the last one ends as early as possible.

Each slot of each worker counts as a machine. A task takes one slot, or several slots of one worker at the same time. If
all machines were busy until everything is done, they would all be done at the same time, the *level*.

Waiting tasks stay where they are. Tasks that nobody has go where they can begin first, the longest task first (Graham's
LPT). If machines would then be busy for much longer than the level, workers also give up the waiting tasks that they
would not finish in time, and these are placed in the same way. This happens only if it makes machines less late, so
that a group comes to rest. Running tasks always stay: if they were stopped, they would lose their progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import chain, repeat, takewhile
from types import MappingProxyType
from typing import Final

from airflow_provider.assignment.balancing.balance import NO_LIMIT
from airflow_provider.assignment.balancing.machines import (
    NOWHERE,
    Slots,
    Work,
    after,
    area,
    deal,
    in_time,
    late,
    leave_to_begin,
    level,
)
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Load
from airflow_provider.assignment.shares import Shares, all_of, grouped, minus, plus
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

_HARDLY: Final = 0.1
"""A task is in time if it ends this much after the level, as a part of the level."""
_COME_BACK: Final = 0.01
"""Of the tasks that a round takes, hardly more than this part may come back to their home in the next one; if that
takes too many tries, ten times as many.
"""
_TRIES: Final = 8
"""How often to look for tasks that do not come back: each time, all of them are placed."""


class CostPool:
    """The tasks of known cost, as a round moves them; :class:`.balance.Pool` is the same for all others.

    :param kept: each member, and the tasks of this kind that it has
    :param own: tasks that some members are to get back, and that nobody runs
    :param free: all other tasks that nobody runs
    :param calm: whether all kept tasks stay, as in a round that places what the previous round has taken. There is
        always a bit more to gain, so each such round would be followed by another one
    """

    __slots__ = ("_costs", "_given", "_moving", "_sharing", "_spare", "returned")

    over: Final[Mapping[WorkerId, Load]] = MappingProxyType({})
    """A share of work is no number of tasks."""
    returned: Shares
    """The tasks that members get back, because they would not end sooner elsewhere."""

    def __init__(self, kept: Shares, own: Shares, free: Tasks, costs: Costs, *, calm: bool = False) -> None:
        self._costs = costs
        self._sharing = _Sharing(kept, own, free, costs)
        self._given = self._sharing.moved(calm=calm)
        elsewhere = all_of(self._given)
        self._moving = {worker: moving for worker, tasks in kept.items() if (moving := tasks & elsewhere)}
        self.returned = {worker: minus(tasks, elsewhere) for worker, tasks in own.items()}
        self._spare = all_of(own) & elsewhere

    @property
    def stops(self) -> int:
        """How many tasks would end sooner elsewhere."""
        return sum(map(len, self._moving.values()))

    def relieve(self, _rank: Mapping[TaskId, int], most_stops: int = NO_LIMIT) -> Shares:
        """Take from each worker the tasks that would end sooner elsewhere. If not all may be taken: the longest ones,
        but none that would come back without the others, as half of a swap would.

        :param most_stops: take at most this many, from all workers together
        :return: what was taken, by worker
        """
        if self.stops <= most_stops:
            return self._moving
        moving = [(task, worker) for worker, tasks in self._moving.items() for task in tasks]
        for _ in range(_TRIES if most_stops else 0):
            chosen = nlargest(most_stops, moving, key=lambda way: (self._costs.of[way[0]], way))
            back = self._sharing.come_back(frozenset([task for task, _ in chosen]))
            if not back:
                return grouped(chosen)
            moving = [way for way in moving if way[0] not in back]
        return {}

    def place(self, tasks: Tasks) -> Shares:
        """Give each task to the worker that can begin it first, and with them the tasks that members do not get back.

        :return: what was given, by worker
        """
        tasks = plus(tasks, self._spare)
        return {worker: gets for worker, given in self._given.items() if (gets := tasks & given)}


class _Sharing:
    """Ways to share out waiting tasks over machines that are busy with running ones.

    See :class:`CostPool` for the parameters.
    """

    __slots__ = ("_homes", "_latest", "_level", "_slots", "_tasks", "_work", "_workers")

    def __init__(self, kept: Shares, own: Shares, free: Tasks, costs: Costs) -> None:
        self._workers = sorted(kept)
        started = frozenset(costs.left)
        running = [kept[worker] & started for worker in self._workers]
        waiting = [plus(minus(kept[worker], started), own.get(worker, NO_TASKS)) for worker in self._workers]
        self._slots = _slots(self._workers, running, costs)
        tasks = list(chain(*waiting, free))
        at_home = chain.from_iterable(repeat(home, len(of_home)) for home, of_home in enumerate(waiting))
        homes = [*at_home, *repeat(NOWHERE, len(free))]
        by_task = list(map(costs.of.__getitem__, tasks))
        order = _longest_first(tasks, by_task)
        self._tasks = list(map(tasks.__getitem__, order))
        self._homes = list(map(homes.__getitem__, order))
        size_of, most = costs.size_of, max(map(len, self._slots))
        wide = [min(size_of.get(task, 1), most) for task in self._tasks] if size_of else repeat(1, len(tasks))
        self._work: list[Work] = list(zip(map(by_task.__getitem__, order), wide, strict=True))
        self._level = level(self._slots, area(self._work))
        self._latest = self._level * (1 + _HARDLY)

    def moved(self, *, calm: bool) -> Shares:
        """Who gets the tasks that nobody has. And those that others have, if tasks that are done in time stay, and if
        this makes machines less late; else those of them for which slots are idle.

        :param calm: whether all others stay where they are
        """
        places = self._placed(self._homes)
        if calm or self._homes.count(NOWHERE) == len(self._homes):
            return self._elsewhere(places)
        most = self._late(places) - _HARDLY * self._level
        if most > self._late_anyway():
            then = self._as_next_round(in_time(self._work, self._homes, self._slots, self._latest))
            if self._late(then) < most:
                return self._elsewhere(then)
        stay = leave_to_begin(self._work, self._homes, places, self._slots, self._latest)
        return self._elsewhere(places if stay == self._homes else self._as_next_round(stay))

    def come_back(self, tasks: Tasks) -> Tasks:
        """Those of these tasks that the next round would give back to their home, if this one takes only these."""
        stay = [NOWHERE if task in tasks else home for task, home in zip(self._tasks, self._homes, strict=True)]
        ways = zip(self._tasks, stay, self._homes, self._placed(stay), strict=True)
        return frozenset([task for task, at, home, place in ways if at != home and home == place])

    def _as_next_round(self, stay: Sequence[int]) -> list[int]:
        """Where the next round places the tasks that this round takes. Tasks that would come back to their home are not
        taken at all; this changes where the others go.
        """
        for part in chain(repeat(_COME_BACK, _TRIES), repeat(_HARDLY)):
            places = self._placed(stay)
            at_home = [home if home == place else NOWHERE for home, place in zip(self._homes, places, strict=True)]
            moving = at_home.count(NOWHERE)
            if stay.count(NOWHERE) - moving <= part * moving:
                break
            stay = at_home
        return places

    def _placed(self, homes: Sequence[int]) -> list[int]:
        """The worker of each task. Tasks without a home go to the workers that are first done with their own tasks."""
        places = list(homes)
        free = [place for place, home in enumerate(homes) if home == NOWHERE]
        if not free:
            return places
        busy = [after(slots, work) for slots, work in zip(self._slots, self._by_worker(homes), strict=True)]
        for place, worker in zip(free, deal([self._work[place] for place in free], busy), strict=True):
            places[place] = worker
        return places

    def _late(self, places: Sequence[int]) -> float:
        """For how long machines are busy after the latest time that is in time, summed over all machines."""
        return sum(map(late, self._slots, self._by_worker(places), repeat(self._latest)))

    def _late_anyway(self) -> float:
        """How much of that can't be avoided: a task that takes longer by itself is late wherever it is."""
        longest = takewhile(lambda work: work[0] > self._latest, self._work)
        return sum([(cost - self._latest) * wide for cost, wide in longest])

    def _by_worker(self, places: Sequence[int]) -> list[list[Work]]:
        """What each worker has to do."""
        work: list[list[Work]] = [[] for _ in self._workers]
        for task, worker in zip(self._work, places, strict=True):
            if worker != NOWHERE:
                work[worker].append(task)
        return work

    def _elsewhere(self, places: Sequence[int]) -> Shares:
        ways = zip(self._tasks, self._homes, places, strict=True)
        return grouped((task, self._workers[place]) for task, home, place in ways if home != place)


def _slots(workers: Sequence[WorkerId], running: Sequence[Tasks], costs: Costs) -> list[Slots]:
    """When the slots of each worker are free of running tasks. If other work has all slots of all workers, each worker
    counts as having one.
    """
    number = [max(0, costs.slots.get(worker, 1)) for worker in workers]
    if not any(number):
        number = [1] * len(workers)
    size_of = costs.size_of
    left = [sorted([(costs.left[task], size_of.get(task, 1)) for task in tasks], reverse=True) for tasks in running]
    return [after([0.0] * slots, of_worker) for slots, of_worker in zip(number, left, strict=True)]


def _longest_first(tasks: Sequence[TaskId], costs: Sequence[float]) -> list[int]:
    """The places of the tasks, the longest task first, equally long ones by name. Several sorts by one plain value each
    are the quickest.
    """
    by_index = sorted(range(len(tasks)), key=[task[1] for task in tasks].__getitem__)
    by_name = sorted(by_index, key=[task[0] for task in tasks].__getitem__)
    return sorted(by_name, key=costs.__getitem__, reverse=True)
