"""Workers as machines: when each of their slots is free, and when it would be free if they were given work.

Workers and tasks are numbers here, their places in lists, and the longest task comes first. So names are looked up and
compared once, however often the same work is placed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from itertools import accumulate, chain
from math import inf
from typing import Final

Slots = list[float]
"""When each slot of a worker is free, as a heap. Empty: other work has all of them, for ever."""

Work = tuple[float, int]
"""The cost of a task, and how many slots it takes. On a worker with fewer slots it takes all of them, for as long."""

_Turn = tuple[float, float, int]
"""When a worker can begin a task, how much it has to do per slot, and its number."""

NOWHERE: Final = -1
"""The worker of a task that nobody has."""

_SMALL: Final = 0.01
"""Tasks shorter than this part of the level are not placed one by one."""


def level(workers: Iterable[Slots], work: float) -> float:
    """When all slots would be free if they did this work, too, and were busy until the same moment.

    :param work: the :func:`area` of the work
    """
    free_at = sorted(chain.from_iterable(workers))
    return min((work + total) / number for number, total in enumerate(accumulate(free_at), 1))


def area(work: Iterable[Work]) -> float:
    """The cost of each task times its slots, summed up."""
    return sum([cost * wide for cost, wide in work])


def after(slots: Slots, work: Iterable[Work]) -> Slots:
    """When the slots are free after this work, too. Each task begins as soon as it can."""
    if len(slots) == 1:
        return [slots[0] + sum([cost for cost, _ in work])]
    free_at = slots.copy()
    for cost, wide in work if slots else ():
        if wide == 1:
            heapreplace(free_at, free_at[0] + cost)
        else:
            _take_several(free_at, cost, wide)
    return free_at


def late(slots: Slots, work: Sequence[Work], latest: float) -> float:
    """For how much longer this work keeps a worker busy after ``latest``, summed over its slots."""
    if not slots:
        return area(work)
    then, now = (sum([at - latest for at in free_at if at > latest]) for free_at in (after(slots, work), slots))
    return then - now


def deal(work: Sequence[Work], workers: Sequence[Slots]) -> list[int]:
    """Give each task to the worker that can begin it first (Graham's LPT).

    Small tasks are not placed one by one: each slot gets as many as it can do up to the level. So the last task ends
    later by at most one of them. This is not done with tasks that take several slots, which are seldom free together.

    :param work: the longest first
    :return: the worker of each task
    """
    turns = _Turns(workers)
    least = _SMALL * level(workers, area(work))
    places, small = [], []
    for place, (cost, wide) in enumerate(work):
        if cost < least and wide == 1:
            small.append(place)
            places.append(NOWHERE)
        else:
            places.append(turns.give_first(cost, wide))
    for place, worker in zip(small, _poured([work[place][0] for place in small], turns.slots), strict=True):
        places[place] = worker
    return places


def _poured(costs: Sequence[float], workers: Sequence[Slots]) -> list[int]:
    """Give each slot as much as it can do until all are busy up to the same time. Each gets tasks of all sizes, so that
    it has some short ones for its end.
    """
    if not costs:
        return []
    by_turn = sorted((number, worker, at) for worker, slots in enumerate(workers) for number, at in enumerate(slots))
    until = max(min(chain.from_iterable(workers)), level(workers, sum(costs)))  # the level may be rounded down
    room = [(until - at, worker) for _, worker, at in by_turn if at <= until]
    mixed = list(chain.from_iterable(range(start, len(costs), len(room)) for start in range(len(room))))
    poured = list(accumulate(map(costs.__getitem__, mixed)))
    places = [room[-1][1]] * len(costs)
    begin = 0
    for full, (_, worker) in zip(accumulate(takes for takes, _ in room), room, strict=True):
        end = bisect_left(poured, full, begin)
        for task in mixed[begin:end]:
            places[task] = worker
        begin = end
    return places


def in_time(work: Sequence[Work], homes: Sequence[int], workers: Sequence[Slots], latest: float) -> list[int]:
    """Which tasks stay at home, if workers begin with the longest ones, and tasks that would not be done in time there
    go where they can begin first.

    :param homes: the worker of each task, or :data:`NOWHERE`
    :return: the same, with :data:`NOWHERE` for the tasks that leave their home
    """
    turns = _Turns(workers)
    stay = []
    for (cost, wide), home in zip(work, homes, strict=True):
        if home != NOWHERE and turns.slots[home] and turns.begins(home, wide) + cost <= latest:
            turns.give(home, cost, wide)
            stay.append(home)
        else:
            turns.give_first(cost, wide)
            stay.append(NOWHERE)
    return stay


def leave_to_begin(
    work: Sequence[Work], homes: Sequence[int], places: Sequence[int], workers: Sequence[Slots], latest: float
) -> list[int]:
    """Which tasks stay at home, if those that would wait there and end too late leave it for slots that are idle.

    :param homes: the worker of each task, or :data:`NOWHERE`
    :param places: the same, with a worker for those without a home, too
    :return: ``homes``, with :data:`NOWHERE` for tasks that leave their home: no more than begin immediately elsewhere
    """
    stay, given = list(homes), Counter(places)
    if all(slots.count(0) <= given[worker] for worker, slots in enumerate(workers)):
        return stay
    turns, waiting = _Turns(workers), []
    for number, ((cost, wide), home, place) in enumerate(zip(work, homes, places, strict=True)):
        begins = turns.begins(place, wide) if turns.slots[place] else inf
        if begins < inf:
            turns.give(place, cost, wide)
        if home != NOWHERE and begins > 0 and begins + cost > latest:
            waiting.append(number)
    for number in waiting:
        cost, wide = work[number]
        if turns.first(wide) == 0:
            turns.give_first(cost, wide)
            stay[number] = NOWHERE
    return stay


class _Turns:
    """Tells which worker can begin the next task first; of several, the one that has the least to do per slot.

    :ivar slots: when each slot of each worker is free after what it was given so far
    """

    __slots__ = ("_busy", "_queues", "slots")

    def __init__(self, workers: Sequence[Slots]) -> None:
        self.slots = [slots.copy() for slots in workers]
        self._busy = [sum(slots) / max(1, len(slots)) for slots in workers]
        self._queues: dict[int, list[_Turn]] = {}

    def begins(self, worker: int, wide: int) -> float:
        """When the worker would begin a task that takes ``wide`` slots."""
        slots = self.slots[worker]
        return slots[0] if wide == 1 else sorted(slots)[min(wide, len(slots)) - 1]

    def give(self, worker: int, cost: float, wide: int) -> None:
        if wide == 1:
            heapreplace(self.slots[worker], self.slots[worker][0] + cost)
        else:
            _take_several(self.slots[worker], cost, wide)
        number = len(self.slots[worker])
        self._busy[worker] += cost * min(wide, number) / number

    def first(self, wide: int) -> float:
        """When the worker would begin such a task that can begin it first."""
        return self._next(wide)[0]

    def give_first(self, cost: float, wide: int) -> int:
        """:return: the worker that can begin it first, and gets it"""
        *_, worker = self._next(wide)
        self.give(worker, cost, wide)
        return worker

    def _next(self, wide: int) -> _Turn:
        if wide not in self._queues:
            self._queues[wide] = [self._turn(worker, wide) for worker, slots in enumerate(self.slots) if slots]
            heapify(self._queues[wide])
        queue = self._queues[wide]
        while (turn := self._turn(queue[0][2], wide)) != queue[0]:
            heapreplace(queue, turn)  # outdated: the worker was given something since, so its turn comes later
        return turn

    def _turn(self, worker: int, wide: int) -> _Turn:
        return self.begins(worker, wide), self._busy[worker], worker


def _take_several(slots: Slots, cost: float, wide: int) -> None:
    """The task begins when enough slots are free. Nothing else begins meanwhile, so it takes the first free ones."""
    slots.sort()
    taken = min(wide, len(slots))
    slots[:taken] = [slots[taken - 1] + cost] * taken
    slots.sort()  # a sorted list is a heap
