"""Spreads one kind of work, planners or tasks: who has too much, what they give up, who gets what is free."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest
from operator import itemgetter
from typing import Final

from airflow_provider.assignment.balancing.dealing import deal, deal_seats
from airflow_provider.assignment.balancing.portions import Portions, most_first
from airflow_provider.assignment.model import Load
from airflow_provider.assignment.shares import NO_NUMBERS, Numbers, Shares, all_of, plus, without
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

NO_LIMIT: Final = sys.maxsize
_job_of: Final = itemgetter(0)


class Pool:
    """One kind of work, planners or tasks, as a round changes it.

    The two kinds are counted apart: a planner costs next to nothing, so it must not outweigh a task.

    :param may_have: what members may have of what is configured of this kind
    :param kept: what each member keeps of this kind
    :param own: what some members are to get back; nobody runs it now
    :param fixed: how many more of this kind a member has that count, but don't move
    :param beside: see :func:`.dealing.deal`
    :param size: how much each task counts; all other numbers are in the same unit
    """

    __slots__ = ("_beside", "_excess", "_fixed", "_in_turn", "_quotas", "_shares", "_spare", "over", "returned", "size")

    returned: Shares
    """What each member gets back: its own, as far as it is within its share."""
    over: Mapping[WorkerId, Load]
    """The members above their shares, counting what they are to get back."""

    def __init__(
        self,
        may_have: Portions,
        kept: Shares,
        own: Shares,
        fixed: Numbers = NO_NUMBERS,
        size: int = 1,
        beside: Numbers = NO_NUMBERS,
    ) -> None:
        self.size, self._quotas, self._fixed, self._beside = size, may_have, fixed, beside
        self._in_turn = may_have.equal and size == 1
        self._shares = {worker: plus(tasks, own.get(worker, NO_TASKS)) for worker, tasks in kept.items()}
        loads, idle = self._loads, {worker: size * len(tasks) for worker, tasks in own.items()}
        above = surplus(loads, idle, may_have, fixed)
        self.over = {worker: Load(loads[worker], loads[worker] - number) for worker, number in above.items()}
        spare = {
            worker: frozenset(choose(own[worker], more // size, {})) for worker, more in above.items() if worker in own
        }
        self._spare = all_of(spare)
        self._shares = {worker: without(tasks, self._spare) for worker, tasks in self._shares.items()}
        self.returned = {worker: without(tasks, self._spare) for worker, tasks in own.items()}
        excess = self._given_up({worker: more - size * len(spare.get(worker, ())) for worker, more in above.items()})
        self._excess = {worker: min(number, len(kept[worker])) for worker, number in excess.items() if number > 0}

    def _given_up(self, above: Numbers) -> Numbers:
        """How many of its tasks each worker gives up that has so much above its share."""
        return above

    @property
    def stops(self) -> int:
        """How many running tasks would have to stop so that nobody has more than its share."""
        return sum(self._excess.values())

    def relieve(self, rank: Mapping[TaskId, int], most_stops: int = NO_LIMIT) -> Shares:
        """Take from each worker the running tasks above its share.

        :param rank: see :func:`choose`
        :param most_stops: take at most so many, over all workers
        :return: what was taken, by worker
        """
        taken: dict[WorkerId, Tasks] = {}
        for worker, number in limited(self._excess, most_stops).items():
            if number:
                taken[worker] = frozenset(choose(self._shares[worker], number, rank))
                self._shares[worker] -= taken[worker]
        return taken

    def place(self, tasks: Tasks) -> dict[WorkerId, list[TaskId]]:
        """Give tasks to the workers that lack the most of their shares, and with them what is above the share of the
        worker that had it.

        :return: what was given, by worker
        """
        tasks = plus(tasks, self._spare)
        if not tasks:
            return {}
        if self._in_turn:
            return deal(tasks, self._loads, self._shares, self._beside)
        return deal_seats(tasks, self._seats(self._loads, len(tasks)), self._shares)

    def given_out(self, loads: Numbers, most_stops: int) -> Numbers:
        """The loads after the next round, which gives out what this one takes.

        :param loads: those before anything is taken
        :param most_stops: at most so many tasks are taken
        """
        number = min(self.stops, most_stops)
        if not number:
            return loads
        taken = limited(self._excess, number)
        left = {worker: load - self.size * taken.get(worker, 0) for worker, load in loads.items()}
        return {worker: left[worker] + self.size * gets for worker, gets in self._seats(left, number).items()}

    @property
    def _loads(self) -> dict[WorkerId, int]:
        return {worker: self.size * len(has) + self._fixed.get(worker, 0) for worker, has in self._shares.items()}

    def _seats(self, loads: Numbers, number: int) -> Numbers:
        """How many of so many tasks each worker gets."""
        return self._quotas.seats(loads, number)


def surplus(loads: Numbers, idle: Numbers, may_have: Portions, fixed: Numbers = NO_NUMBERS) -> dict[WorkerId, int]:
    """How much each worker has above its share, as Java's ``loadBalancingRevocations`` counts it.

    Of the workers above their shares, some may keep one more (:attr:`Portions.extras`). First those that must keep it,
    since their fixed load alone is above the share. Then those that would have to stop a running task otherwise, then
    those that are the least above: as few workers as possible stop anything.

    :param idle: how much of a worker's load it has not started
    :param fixed: how much of a worker's load does not move
    :return: only workers that have to give something up
    """
    whole, rest = may_have.whole, may_have.rest
    above = sorted(
        (
            fixed.get(worker, 0) <= whole[worker],
            load - whole[worker] <= idle.get(worker, 0),
            load - whole[worker],
            -rest.get(worker, 0),
            worker,
        )
        for worker, load in loads.items()
        if load > whole[worker]
    )
    gives = {worker: more - (position < may_have.extras) for position, (*_, more, _, worker) in enumerate(above)}
    return {worker: number for worker, number in gives.items() if number}


def limited(stops: Numbers, most: int) -> Numbers:
    """Allow at most ``most`` stops in all, each time to the worker that has the most stops left."""
    return stops if sum(stops.values()) <= most else most_first(stops, most)


def choose(tasks: Collection[TaskId], number: int, rank: Mapping[TaskId, int]) -> list[TaskId]:
    """Choose what a worker gives up: the lowest rank first, then tasks of the job that has the most tasks there; of
    equals the last name and the highest index, so that what came first stays.

    :param rank: what it costs to stop a task; 0, the default, is nothing, as for a task that has not started
    """
    one_of_each = len(set(map(_job_of, tasks))) == len(tasks)  # as where jobs are spread
    size = Counter(() if one_of_each else map(_job_of, tasks))
    by_rank: defaultdict[int, list[TaskId]] = defaultdict(list)
    for task in tasks:
        by_rank[rank.get(task, 0)].append(task)
    chosen: list[TaskId] = []
    for _, equals in sorted(by_rank.items()):
        left = number - len(chosen)
        thinned = nlargest(left, equals) if one_of_each else thin_out(sorted(equals, reverse=True), left, size)
        chosen += thinned
        if len(chosen) == number:
            break
        size.subtract(map(_job_of, thinned))
    return chosen


def thin_out(tasks: Iterable[TaskId], number: int, size: Mapping[str, int]) -> list[TaskId]:
    """Choose at most ``number`` of the tasks, one at a time from the job that has the most left; of equals, the first.

    :param size: how many tasks each job has there before
    """
    left = dict(size)
    order: list[tuple[int, TaskId]] = []
    for task in tasks:
        order.append((left[task[0]], task))
        left[task[0]] -= 1
    return [task for _, task in nlargest(number, order, key=itemgetter(0))]
