"""Workers as machines: when each of their slots is free, and what comes of it when they are given work.

Workers and tasks are numbers here, by their places in lists, and tasks stand the longest first: names are looked up and
compared once, however often the same work is weighed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from itertools import accumulate, chain
from typing import Final

Slots = list[float]
"""When each slot of a worker is free, as a heap. None: other work has them all, for ever."""

Work = tuple[float, int]
"""What a task costs, and how many slots it takes: where there are fewer, all of them, as long as it would take them."""

_Turn = tuple[float, float, int]
"""When a worker can begin a task, what it has to do altogether for each slot, and who it is."""

NOWHERE: Final = -1
"""The worker of a task that nobody has."""

_SMALL: Final = 0.01
"""Of the level: shorter work is not placed one by one."""


def level(workers: Iterable[Slots], work: float) -> float:
    """When all slots would be free if they did this, too, and were always busy until the same moment.

    :param work: what all of it costs, times the slots that it takes
    """
    free_at = sorted(chain.from_iterable(workers))
    return min((work + total) / number for number, total in enumerate(accumulate(free_at), 1))


def area(work: Iterable[Work]) -> float:
    """What all of it costs, times the slots that it takes."""
    return sum([cost * wide for cost, wide in work])


def after(slots: Slots, work: Iterable[Work]) -> Slots:
    """When they are free after this, too: each task begins where it can begin first."""
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
    """How long a worker is busy with these after that time, all slots together, beyond what it is without them."""
    if not slots:
        return area(work)
    if max(slots) <= latest:
        return sum([at - latest for at in after(slots, work) if at > latest])
    return sum([max(0.0, at - latest) for at in after(slots, work)]) - sum([max(0.0, at - latest) for at in slots])


def deal(work: Sequence[Work], workers: Sequence[Slots]) -> list[int]:
    """Give each task to the worker that can begin it first (Graham's LPT).

    What is small goes to each slot in one piece, as much as it takes up to the level: so the last one ends later by
    one of them at most. Not what takes several slots: they are not free together.

    :param work: the longest first
    :return: by task its worker
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
    """Each slot gets as much as it takes until all are busy up to the same time: of any size, for each is to have a few
    that are short for its end.
    """
    if not costs:
        return []
    by_turn = sorted((number, worker, at) for worker, slots in enumerate(workers) for number, at in enumerate(slots))
    until = max(min(chain.from_iterable(workers)), level(workers, sum(costs)))  # rounded, the level may be before
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
    """Who keeps what, if all begin with the longest, and what is not done in time at home goes where it ends first.

    :param homes: by task its worker, or :data:`NOWHERE`
    :return: the same without what goes elsewhere
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


class _Turns:
    """Which worker can begin the next task first; of several who has the least to do altogether for each slot.

    :ivar slots: when each slot of each worker is free after what they were given
    """

    __slots__ = ("_busy", "_number", "_queues", "slots")

    def __init__(self, workers: Sequence[Slots]) -> None:
        self.slots = [slots.copy() for slots in workers]
        self._number = [len(slots) for slots in workers]
        self._busy = [sum(slots) / max(1, len(slots)) for slots in workers]
        self._queues: dict[int, list[_Turn]] = {}

    def begins(self, worker: int, wide: int) -> float:
        """When it would begin a task that takes so many slots."""
        slots = self.slots[worker]
        return slots[0] if wide == 1 else sorted(slots)[min(wide, len(slots)) - 1]

    def give(self, worker: int, cost: float, wide: int) -> None:
        if wide == 1:
            heapreplace(self.slots[worker], self.slots[worker][0] + cost)
        else:
            _take_several(self.slots[worker], cost, wide)
        self._busy[worker] += cost * min(wide, self._number[worker]) / self._number[worker]

    def give_first(self, cost: float, wide: int) -> int:
        """:return: who begins it first"""
        queue = self._queues.get(wide) or self._queue(wide)
        while True:
            at, busy, worker = queue[0]
            if self._busy[worker] == busy and self.begins(worker, wide) == at:
                self.give(worker, cost, wide)
                return worker
            # it was given something since, so its turn is later
            heapreplace(queue, self._turn(worker, wide))

    def _queue(self, wide: int) -> list[_Turn]:
        there = [worker for worker, number in enumerate(self._number) if number]
        queue = self._queues[wide] = [self._turn(worker, wide) for worker in there]
        heapify(queue)
        return queue

    def _turn(self, worker: int, wide: int) -> _Turn:
        return self.begins(worker, wide), self._busy[worker], worker


def _take_several(slots: Slots, cost: float, wide: int) -> None:
    """The task begins when it has its slots. Until then nothing else does, so it takes those that are free first."""
    slots.sort()
    taken = min(wide, len(slots))
    slots[:taken] = [slots[taken - 1] + cost] * taken
    slots.sort()  # a sorted list is a heap
