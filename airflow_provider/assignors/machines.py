"""Workers as machines: when each of their slots is free, and what comes of it when they are given work.

Workers and tasks are numbers here, by their places in lists, and tasks stand the longest first: names are looked up and
compared once, however often the same work is weighed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from itertools import accumulate, chain
from operator import itemgetter
from typing import Final

Slots = list[float]
"""When each slot of a worker is free, as a heap. None: other work has them all, for ever."""

NOWHERE: Final = -1
"""The worker of a task that nobody has."""

_SMALL: Final = 0.01
"""Of the level: shorter work is not placed one by one."""


def level(workers: Iterable[Slots], work: float) -> float:
    """When all slots would be free if they did this, too, and were always busy until the same moment."""
    free_at = sorted(chain.from_iterable(workers))
    return min((work + total) / number for number, total in enumerate(accumulate(free_at), 1))


def after(slots: Slots, costs: Iterable[float]) -> Slots:
    """When they are free after this, too: each task begins where it can begin first."""
    if len(slots) == 1:
        return [slots[0] + sum(costs)]
    free_at = slots.copy()
    for cost in costs if slots else ():
        heapreplace(free_at, free_at[0] + cost)
    return free_at


def late(slots: Slots, costs: Sequence[float], latest: float) -> float:
    """How long a worker is busy with these after that time, all slots together, beyond what it is without them."""
    if not slots:
        return sum(costs)
    if max(slots) <= latest:
        return sum([at - latest for at in after(slots, costs) if at > latest])
    return sum([max(0.0, at - latest) for at in after(slots, costs)]) - sum([max(0.0, at - latest) for at in slots])


def deal(costs: Sequence[float], workers: Sequence[Slots]) -> list[int]:
    """Give each task to the worker that is free first (Graham's LPT).

    What is small goes to each slot in one piece, as much as it takes up to the level: so the last one ends later by
    one of them at most.

    :param costs: the longest first
    :return: by task its worker
    """
    in_turn = sorted(_turn(number, worker) for worker, slots in enumerate(workers) for number in range(len(slots)))
    free_at = [(workers[worker][number], turn, worker) for turn, (number, _, worker) in enumerate(in_turn)]
    heapify(free_at)
    small = _SMALL * level(workers, sum(costs))
    alone = len(costs) - bisect_left(costs[::-1], small)
    places = []
    for cost in costs[:alone]:
        at, turn, worker = free_at[0]
        heapreplace(free_at, (at + cost, turn, worker))
        places.append(worker)
    return places + _poured(costs[alone:], free_at)


def _turn(number: int, worker: int) -> tuple[int, int, int]:
    """Of slots that are equally free. Who got the longest into its first one is the last to get one into its second."""
    return number, -worker if number % 2 else worker, worker


def _poured(costs: Sequence[float], free_at: Iterable[tuple[float, int, int]]) -> list[int]:
    """Each slot gets as much as it takes until all are busy up to the same time: of any size, for each is to have a few
    that are short for its end.
    """
    if not costs:
        return []
    first = min(free_at)[0]
    until = max(first, level([[at for at, _, _ in free_at]], sum(costs)))  # without costs, rounded, it may be before
    room = [(until - at, worker) for at, _, worker in sorted(free_at, key=itemgetter(1)) if at <= until]
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


def in_time(costs: Sequence[float], homes: Sequence[int], workers: Sequence[Slots], latest: float) -> list[int]:
    """Who keeps what, if all begin with the longest, and what is not done in time at home goes where it ends first.

    :param homes: by task its worker, or :data:`NOWHERE`
    :return: the same without what goes elsewhere
    """
    slots_of = [slots.copy() for slots in workers]
    first = [(slots[0], worker) for worker, slots in enumerate(slots_of) if slots]
    heapify(first)
    stay = []
    for cost, home in zip(costs, homes, strict=True):
        if home != NOWHERE and (slots := slots_of[home]) and (end := slots[0] + cost) <= latest:
            heapreplace(slots, end)
            stay.append(home)
            continue
        stay.append(NOWHERE)
        at, worker = first[0]
        while (now := slots_of[worker][0]) != at:  # it has kept something of its own since
            heapreplace(first, (now, worker))
            at, worker = first[0]
        heapreplace(slots_of[worker], at + cost)
        heapreplace(first, (slots_of[worker][0], worker))
    return stay
