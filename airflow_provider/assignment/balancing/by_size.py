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
    loads = {worker: fixed.get(worker, 0) for worker in room.slots}
    wants = dict.fromkeys(loads, 0)
    waits: dict[int, Numbers] = {}
    for size, kept, own, _ in sizes:
        waits[size] = {worker: number for worker, tasks in kept.items() if (number := len(tasks & waiting))}
        for worker, number in waits[size].items():
            wants[worker] += size * number
        for worker, tasks in kept.items():
            loads[worker] += size * (len(tasks) + len(own.get(worker, NO_TASKS)))
    now: tuple[Numbers, Numbers] = loads, wants
    pools: dict[int, Pool] = {}
    larger: _SizePool | None = None
    for of_size in sorted(sizes, key=lambda of_size: -of_size.size):
        now = larger.then() if larger else now
        larger = pools[of_size.size] = _SizePool(of_size, may_have, room, waits[of_size.size], *now)
    for pool in pools.values() if len(pools) > 1 else ():
        pool.over = {}  # a share of slots is no number of tasks
    return [pools[of_size.size] for of_size in sizes]


class _SizePool(Pool):
    """The tasks of one size, when the larger ones have their places.

    :param waits: how many tasks of this size members have not started, without members that have started all
    :param loads: how many slots the tasks of all sizes take, those included that members are to get back
    :param wants: how many slots the tasks of all sizes want that cannot start, or have not
    """

    __slots__ = ("_kept", "_now", "_room", "_seated", "_unplaced", "_waits", "_wants")

    def __init__(
        self,
        of_size: OfSize,
        may_have: Portions,
        room: Room,
        waits: Numbers,
        loads: Numbers,
        wants: Numbers,
    ) -> None:
        size, self._kept, own, unplaced = of_size
        self._unplaced = len(unplaced)
        self._room, self._now, self._waits, self._wants = room, loads, waits, wants
        self._seated: tuple[Numbers, int, Numbers] = ({}, 0, {})
        others = {
            worker: loads[worker] - size * (len(tasks) + len(own.get(worker, NO_TASKS)))
            for worker, tasks in self._kept.items()
        }
        super().__init__(may_have, self._kept, own, others, size)
        self._in_turn = self._in_turn and not room.shared

    def then(self) -> tuple[Numbers, Numbers]:
        """The loads, and what waits, when what is above the shares and what nobody has is placed."""
        places = self._unplaced + len(self._spare) + self.stops
        if not places:
            return self._now, self._wants
        left, wants = self._loads, dict(self._wants)
        for worker, number in self._excess.items():
            left[worker] -= self.size * number
            wants[worker] -= self.size * min(number, self._waits.get(worker, 0))
        starts = self._starts(left)
        for worker, gets in self._seats(left, places).items():
            if gets:
                wants[worker] += self.size * max(0, gets - starts[worker])
                left[worker] += self.size * gets
        return left, wants

    def _given_up(self, above: Numbers) -> Numbers:
        if not above and not self._waits:
            return {}
        slots = self._room.slots
        stuck = {
            worker: min(waits, _parts(self._now[worker] - slots[worker], self.size))
            for worker, waits in self._waits.items()
        }
        starts = limited(stuck, max(0, sum(self._starts(self._now).values()) - self._unplaced))
        one_more = self._portions.extras > sum(
            [load > self._portions.whole[worker] for worker, load in self._now.items()]
        )
        shares = {worker: whole + one_more for worker, whole in self._portions.whole.items()}
        known = slots if any(slots.values()) else shares  # where nothing is known, the shares decide
        runs = limited(self._runs(above), max(0, self._lacking(shares, known) - self._unplaced))
        waits = {worker: min(self._waits.get(worker, 0), more // self.size) for worker, more in above.items()}
        steps = {worker: number + runs.get(worker, 0) for worker, number in waits.items()}
        balance = limited(steps, max(0, self._lacking(shares, shares) - self._unplaced))
        return {worker: max(starts.get(worker, 0), balance.get(worker, 0)) for worker in (*starts, *balance)}

    def _runs(self, above: Numbers) -> dict[WorkerId, int]:
        """How many running tasks are whole steps of balance: only if what waits there is not enough, and if there are
        slots for all.
        """
        if self._room.short:
            return {}
        started = {worker: len(self._kept[worker]) - self._waits.get(worker, 0) for worker in above}
        return {
            worker: min(started[worker], max(0, more - self._wants[worker]) // self.size)
            for worker, more in above.items()
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
        seats = self._portions.seats(loads, start, self.size, self._slots(loads))
        if start < number:
            then = {worker: load + self.size * seats[worker] for worker, load in loads.items()}
            wait = self._portions.seats(then, number - start, self.size)
            seats = {worker: number + wait[worker] for worker, number in seats.items()}
        self._seated = {**loads}, number, seats
        return seats


def _parts(slots: int, size: int) -> int:
    """How many tasks of this size start in so many slots; the last one may get fewer than it wants."""
    return max(0, -(-slots // size))
