"""Shares out tasks that differ in the slots that they take, as streams do: those of each size by themselves.

The largest come first, and those of one slot fill what is left. What nobody has, and what waits, goes where it can
start: with all its slots, else with the most of them that are free. A task that runs moves only for a whole step of
balance: its worker has its slots above its share, and another one lacks as many, so it starts there at once.

Batch tasks that are shared out by cost take slots, too, and are never stopped. So what has to start, or moves, goes
where they leave slots free; the shares do not depend on them.

If all tasks have the same size, and there are no such batch tasks, these rules come to those of module ``balance``,
which are used then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from airflow_provider.assignment.balancing.balance import Pool, limited
from airflow_provider.assignment.balancing.portions import Portions
from airflow_provider.assignment.shares import Numbers, Shares
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId


class OfSize(NamedTuple):
    """The tasks of one size.

    :param size: how many slots each takes
    :param kept: what each member keeps of them
    :param own: what some members are to get back of them
    :param unplaced: those that nobody has
    """

    size: int
    kept: Shares
    own: Shares
    unplaced: Tasks

    def slots_of(self, worker: WorkerId) -> int:
        """How many slots of a worker they take, those included that it is to get back."""
        return self.size * (len(self.kept[worker]) + len(self.own.get(worker, NO_TASKS)))


class Room(NamedTuple):
    """The slots that members have for the tasks of all sizes.

    :param slots: of each member, without those that batch tasks take which are shared out by cost
    :param short: whether all tasks take more slots than all members have
    :param shared: the members where such batch tasks take slots
    """

    slots: Numbers
    short: bool = False
    shared: frozenset[WorkerId] = frozenset()


def pools_by_size(
    sizes: Sequence[OfSize], may_have: Portions, room: Room, fixed: Numbers, waiting: Tasks
) -> list[Pool]:
    """A pool for each size.

    :param may_have: how many slots members may have of those that all tasks take
    :param fixed: how many slots others take that do not move
    :param waiting: the tasks that have not started
    """
    waits = [{worker: len(tasks & waiting) for worker, tasks in of_size.kept.items()} for of_size in sizes]
    loads: Numbers = {
        worker: fixed.get(worker, 0) + sum([of_size.slots_of(worker) for of_size in sizes]) for worker in room.slots
    }
    wants: Numbers = {
        worker: sum([of_size.size * wait[worker] for of_size, wait in zip(sizes, waits, strict=True)])
        for worker in room.slots
    }
    pools: dict[int, _SizePool] = {}
    larger: _SizePool | None = None
    for of_size, wait in sorted(zip(sizes, waits, strict=True), key=lambda work: -work[0].size):
        loads, wants = larger.then() if larger else (loads, wants)
        larger = pools[of_size.size] = _SizePool(of_size, may_have, room, wait, loads, wants)
    for pool in pools.values() if len(pools) > 1 else ():
        pool.over = {}  # a share of slots is no number of tasks
    return [pools[of_size.size] for of_size in sizes]


class _SizePool(Pool):
    """The tasks of one size, when the larger ones have their places.

    :param waits: how many tasks of this size members have not started
    :param loads: how many slots the tasks of all sizes take, those included that members are to get back
    :param wants: how many slots the tasks of all sizes want that cannot start, or have not
    """

    __slots__ = ("_kept", "_now", "_room", "_seated", "_unplaced", "_waits", "_wants")

    def __init__(
        self, of_size: OfSize, may_have: Portions, room: Room, waits: Numbers, loads: Numbers, wants: Numbers
    ) -> None:
        size, self._kept, own, unplaced = of_size
        self._unplaced = len(unplaced)
        self._room, self._now, self._waits, self._wants = room, loads, waits, wants
        self._seated: tuple[Numbers, int, Numbers] = ({}, 0, {})
        others = {worker: loads[worker] - of_size.slots_of(worker) for worker in self._kept}
        super().__init__(may_have, self._kept, own, others, size)
        self._in_turn = self._in_turn and not room.shared
        self._keep_what_would_come_back()

    def then(self) -> tuple[Numbers, Numbers]:
        """The loads, and what waits, when what is above the shares and what nobody has is placed."""
        places = self._places
        if not places:
            return self._now, self._wants
        left, wants = self._left, dict(self._wants)
        for worker, number in self._excess.items():
            wants[worker] -= self.size * min(number, self._waits[worker])
        starts = self._starts(left)
        for worker, gets in self._seats(left, places).items():
            wants[worker] += self.size * max(0, gets - starts[worker])
            left[worker] += self.size * gets
        return left, wants

    def _keep_what_would_come_back(self) -> None:
        """Give up nothing that this worker would get again, as where others have fewer tasks, but no free slots."""
        while self._excess:
            seats = self._seats(self._left, self._places)
            stay = {worker: max(0, number - seats[worker]) for worker, number in self._excess.items()}
            if stay == self._excess:
                return
            self._excess = {worker: number for worker, number in stay.items() if number}

    @property
    def _places(self) -> int:
        """How many tasks are placed: what nobody has, and what is given up."""
        return self._unplaced + len(self._spare) + self.stops

    @property
    def _left(self) -> dict[WorkerId, int]:
        """The loads without what is given up."""
        return {worker: load - self.size * self._excess.get(worker, 0) for worker, load in self._loads.items()}

    def _given_up(self, above: Numbers) -> Numbers:
        """What waits here and can start elsewhere. Or for balance, if that is more: what waits, then what runs, as far
        as others lack it. What nobody has comes first.
        """
        if not above and not any(self._waits.values()):
            return {}
        whole, slots, size = self._quotas.whole, self._room.slots, self.size
        beyond = {worker: _parts(load - slots[worker], size) for worker, load in self._now.items()}
        stuck = {worker: min(waits, beyond[worker]) for worker, waits in self._waits.items()}
        starts = limited(stuck, max(0, sum(self._starts(self._now).values()) - self._unplaced))
        one_more = self._quotas.extras > sum([load > whole[worker] for worker, load in self._now.items()])
        shares = {worker: number + one_more for worker, number in whole.items()}
        known = slots if any(slots.values()) else shares  # where nothing is known, the shares decide
        runs = limited(self._runs(above), max(0, self._lacking(shares, known) - self._unplaced))
        steps = {worker: min(self._waits[worker], more // size) + runs.get(worker, 0) for worker, more in above.items()}
        balance = limited(steps, max(0, self._lacking(shares, shares) - self._unplaced))
        return {worker: max(number, balance.get(worker, 0)) for worker, number in starts.items()}

    def _runs(self, above: Numbers) -> dict[WorkerId, int]:
        """How many running tasks are whole steps of balance: only if what waits there is not enough, and if there are
        slots for all.
        """
        return {
            worker: min(len(self._kept[worker]) - self._waits[worker], max(0, more - self._wants[worker]) // self.size)
            for worker, more in above.items()
            if not self._room.short
        }

    def _lacking(self, shares: Numbers, slots: Numbers) -> int:
        """How many more of these tasks fit into the shares, and into so many slots."""
        return sum(
            [max(0, min(shares[worker], slots[worker]) - load) // self.size for worker, load in self._now.items()]
        )

    def _slots(self, loads: Numbers) -> dict[WorkerId, int]:
        """The slots of each worker in which these tasks start. The last one may get fewer than it wants, but not if it
        would wait for those of batch tasks.
        """
        free = {worker: max(0, self._room.slots[worker] - load) for worker, load in loads.items()}
        return {
            worker: loads[worker] + number - (number % self.size if worker in self._room.shared else 0)
            for worker, number in free.items()
        }

    def _starts(self, loads: Numbers) -> dict[WorkerId, int]:
        """How many more of these tasks could start on each worker."""
        return {worker: _parts(slots - loads[worker], self.size) for worker, slots in self._slots(loads).items()}

    def _seats(self, loads: Numbers, number: int) -> Numbers:
        """First the tasks that can start, wherever that is. The others wait in proportion to the slots. A round asks
        twice: for what is left to smaller tasks, and when these are placed.
        """
        if self._seated[:2] == (loads, number):
            return self._seated[2]
        start = min(number, sum(self._starts(loads).values()))
        seats = self._quotas.seats(loads, start, self.size, self._slots(loads))
        if start < number:
            then = {worker: load + self.size * seats[worker] for worker, load in loads.items()}
            wait = self._quotas.seats(then, number - start, self.size)
            seats = {worker: number + wait[worker] for worker, number in seats.items()}
        self._seated = {**loads}, number, seats
        return seats


def _parts(slots: int, size: int) -> int:
    """How many tasks of this size start in so many slots; the last one may get fewer than it wants."""
    return max(0, -(-slots // size))
