"""How many tasks each worker may have: in proportion to its slots, by the method of largest remainders.

A worker's quota is the number of all tasks times its part of all slots. It may have the whole part of its quota, and as
many workers as are needed so that the sum is right may have one more: when tasks are placed, those with the largest
remainders. A worker that has one more already keeps it, as a move for less than one task would only cost a stop.

A worker whose slots are not known, as one of Java's, counts as the mean of the others. With equal slots the quotas are
equal, and these are the shares of Kafka Connect. A member that stands for several workers counts as so many of these.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import chain, cycle, islice

from airflow_provider.assignment.shares import NO_NUMBERS, Numbers
from airflow_provider.values.model import WorkerId


@dataclass(frozen=True, slots=True)
class Portions:
    """What workers may have of so many tasks.

    :param whole: the whole part of each worker's quota
    :param rest: what is left of it, in any unit; empty: all quotas are equal
    :param extras: how many workers may have one more than the whole part
    """

    whole: Numbers
    rest: Numbers
    extras: int

    @property
    def equal(self) -> bool:
        return not self.rest

    def hold(self, loads: Numbers) -> bool:
        """Whether nobody has more than it may."""
        above = [load - self.whole[worker] for worker, load in loads.items() if load > self.whole[worker]]
        return len(above) <= self.extras and max(above, default=0) <= 1

    def seats(self, loads: Numbers, number: int, size: int = 1, slots: Numbers = NO_NUMBERS) -> dict[WorkerId, int]:
        """How many of ``number`` tasks each worker gets, if it has ``loads`` already: first what is lacking to the
        whole part of its quota, then one more where the most slots are free for it, then for the largest remainders. As
        long as one has a slot free, others get none.

        :param size: how many slots each of the tasks takes
        :param slots: how many slots each worker has; by default it does not matter which of them are free
        """
        lacking = {
            worker: max(0, min(whole, slots.get(worker, whole)) - loads[worker]) // size
            for worker, whole in self.whole.items()
        }
        extras = number - sum(lacking.values())
        if not extras:
            return lacking
        if extras < 0:
            return self._most_lacking(lacking, number, in_proportion=size > 1)
        then = {worker: loads[worker] + size * more for worker, more in lacking.items()}

        def turn(worker: WorkerId) -> tuple[int, int, int, WorkerId]:
            free = slots.get(worker, 0) - then[worker]
            above = then[worker] - self.whole[worker]
            return -min(size, max(0, free)), above, -self.rest.get(worker, 0), worker

        order = sorted(then, key=turn)
        room = {worker: max(0, -((load - slots.get(worker, load)) // size)) for worker, load in then.items()}
        starts = (worker for more in range(max(room.values())) for worker in order if room[worker] > more)
        for worker in islice(chain(starts, cycle(order)), extras):
            lacking[worker] += 1
        return lacking

    def _most_lacking(self, lacking: Numbers, number: int, *, in_proportion: bool) -> dict[WorkerId, int]:
        """As when others have more than they may: each task goes to the worker that lacks the most.

        :param in_proportion: whether each gets the whole part of its quota of these tasks first
        """
        total = sum(lacking.values())
        seats = {worker: number * lacks // total * in_proportion for worker, lacks in lacking.items()}
        left = {worker: lacks - seats[worker] for worker, lacks in lacking.items()}
        more = most_first(left, number - sum(seats.values()), self.rest)
        return {worker: of_worker + more[worker] for worker, of_worker in seats.items()}


def most_first(lacking: Numbers, number: int, rest: Numbers = NO_NUMBERS) -> dict[WorkerId, int]:
    """Give out so many, each to the worker that lacks the most then; of equals, to the largest rest, then by name."""
    given = dict.fromkeys(lacking, 0)
    queue = [(-lacks, -rest.get(worker, 0), worker) for worker, lacks in lacking.items()]
    heapify(queue)
    for _ in range(number):
        lacks, of_rest, worker = queue[0]
        given[worker] += 1
        heapreplace(queue, (lacks + 1, of_rest, worker))
    return given


def portions(
    total: int, workers: Collection[WorkerId], slots: Numbers = NO_NUMBERS, stands_for: Numbers = NO_NUMBERS
) -> Portions:
    """What each of these workers may have of ``total`` tasks.

    :param workers: at least one
    :param stands_for: for how many workers some of them stand
    """
    weights = _weights(workers, slots, stands_for)
    if not weights:
        share, extras = divmod(total, len(workers))
        return Portions(dict.fromkeys(workers, share), {}, extras)
    of_all = sum(weights.values())
    quotas = {worker: divmod(total * weight, of_all) for worker, weight in weights.items()}
    whole = {worker: whole for worker, (whole, _) in quotas.items()}
    return Portions(whole, {worker: rest for worker, (_, rest) in quotas.items()}, total - sum(whole.values()))


def slots_or_mean(
    workers: Collection[WorkerId], slots: Numbers, stands_for: Numbers = NO_NUMBERS
) -> dict[WorkerId, int]:
    """The slots of these workers. A worker whose slots are not known counts as the mean of the others, rounded down; as
    none, if none are known.

    :param stands_for: for how many workers some of them stand
    """
    known = [number for worker in workers if (number := slots.get(worker, 0))]
    mean = sum(known) // len(known) if known else 0
    return {worker: slots.get(worker, mean * stands_for.get(worker, 1)) for worker in workers}


def uneven(workers: Collection[WorkerId], slots: Numbers) -> dict[WorkerId, int]:
    """The slots of these workers that are known; empty if all of them are equal."""
    known = {worker: number for worker in workers if (number := slots.get(worker, 0)) > 0}
    return known if len(set(known.values())) > 1 else {}


def _weights(workers: Collection[WorkerId], slots: Numbers, stands_for: Numbers) -> dict[WorkerId, int]:
    """The workers' slots, or a multiple of them; empty: as far as is known, all are equal."""
    known = uneven(workers, slots)
    together = sum(known.values()) or 1
    weights = {
        worker: known[worker] * len(known) if worker in known else together * stands_for.get(worker, 1)
        for worker in workers
    }
    return weights if known or len(set(weights.values())) > 1 else {}
