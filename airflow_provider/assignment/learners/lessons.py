"""Chooses which stateful tasks are learned from now on, and by whom.

All tasks of a worker that leaves soon are learned by those that stay. Then, for balance, as many tasks of each worker
are learned as it has above its share. Nothing stops for that. Limits say how much is learned at the same time; the rest
keeps running where it is until there is room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest
from itertools import islice

from airflow_provider.assignment.balancing.balance import choose, limited
from airflow_provider.assignment.balancing.dealing import deal
from airflow_provider.assignment.learners.model import Limits
from airflow_provider.assignment.model import Load, Move, MoveReason
from airflow_provider.assignment.shares import Shares, grouped
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """How many stateful tasks the workers that stay have above their shares.

    :param share: how many each has at least when all is even
    :param extras: how many workers may have one more
    :param loads: how many each has, including what it learns and without what others learn of its tasks
    """

    share: int
    extras: int
    loads: Mapping[WorkerId, int]

    @property
    def above(self) -> dict[WorkerId, int]:
        """The workers above the share, and by how many."""
        return {worker: load - self.share for worker, load in self.loads.items() if load > self.share}

    @property
    def spare_extras(self) -> int:
        """How many of the workers that are not above the share may have one more than that."""
        return max(0, self.extras - len(self.above))

    def stops(self, waiting: Shares) -> Mapping[WorkerId, int]:
        """How many each has to give up, as few as possible: all above the share, or all but one. Those come first that
        have not started one more, so that nothing has to be learned for it. Ties go by name.

        :param waiting: the tasks of each worker that have not started
        """
        above = self.above
        order = sorted(above, key=lambda worker: (len(waiting.get(worker, NO_TASKS)) < above[worker], worker))
        keep_one_more = set(order[max(0, len(order) - self.extras) :])
        return {worker: number - (worker in keep_one_more) for worker, number in above.items()}

    def idle(self, waiting: Shares) -> Shares:
        """What each worker gives up because it has not started: as many tasks as it has to give up, or all that wait.

        :param waiting: the tasks of each worker that have not started
        """
        return {
            worker: frozenset(choose(waiting[worker], number, {}))
            for worker, number in self.stops(waiting).items()
            if number and waiting[worker]
        }

    def misplaced(self, waiting: Shares, beside: Mapping[WorkerId, int], places: Iterable[WorkerId]) -> Shares:
        """If the tasks with state are even: those that wait at a worker with one more than the share, although another
        worker has no more than the share and, with its other tasks, at least two tasks fewer. One of each worker.

        :param waiting: the tasks with state of each worker that have not started
        :param beside: how many tasks without state each worker has
        :param places: the workers that may get one more task
        """
        if any(self.stops(waiting).values()):
            return {}
        above = self.above
        totals = {worker: load + beside[worker] for worker, load in self.loads.items()}
        givers = sorted((-totals[worker], worker) for worker in above if waiting.get(worker))
        takers = sorted((totals[worker], worker) for worker in places if worker not in above)
        return {
            giver: frozenset(choose(waiting[giver], 1, {}))
            for (_, giver), (_, taker) in zip(givers, takers, strict=False)
            if totals[giver] > totals[taker] + 1
        }

    def even(self, stops: Mapping[WorkerId, int]) -> dict[WorkerId, int]:
        """How many each worker that stays has when all is even. Those that keep the most have one more.

        :param stops: how many running tasks each has to give up
        """
        left = {worker: load - stops.get(worker, 0) for worker, load in self.loads.items()}
        order = sorted(left, key=lambda worker: (-left[worker], worker))
        return {worker: self.share + (position < self.extras) for position, worker in enumerate(order)}


def at_most(shares: Shares, number: int) -> Shares:
    """At most ``number`` of the tasks, in the order of their workers' names."""
    tasks = ((task, worker) for worker, share in sorted(shares.items()) for task in sorted(share))
    return grouped(islice(tasks, number)) if number < sum(map(len, shares.values())) else shares


def begin(
    limits: Limits,
    excess: Excess,
    *,
    shares: Shares,
    busy: Mapping[WorkerId, int],
    deserted: Shares,
    candidates: Shares,
    stops: Mapping[WorkerId, int],
) -> tuple[Move, ...]:
    """Choose the lessons that begin, as moves to come.

    :param shares: what each worker that stays will have when all present lessons have ended in a move
    :param busy: how many tasks each learns already
    :param deserted: what workers that leave soon have, and nobody learns yet
    :param candidates: the tasks of each worker that stays that others could learn
    :param stops: how many of these each has to give up
    """
    room = max(0, limits.per_group - sum(busy.values()))
    of_leaving = {task: worker for worker, tasks in deserted.items() for task in tasks}
    first = list(islice(sorted(of_leaving), room))
    places = _Places(limits, excess, stops, busy)
    quotas = places.of_leaving(len(first))
    above = {worker: min(number, len(candidates.get(worker, NO_TASKS))) for worker, number in stops.items()}
    numbers = places.for_balance(limited(above, max(0, room - len(first))), quotas)
    of_staying = {
        task: worker for worker, number in numbers.items() for task in _choose(candidates[worker], number) if number
    }
    chosen = [*islice(first, sum(quotas.values()) - sum(numbers.values())), *of_staying]
    owners = {**of_leaving, **of_staying}
    given = _in_order(deal(chosen, {worker: -number for worker, number in quotas.items()}, shares)) if chosen else {}
    return tuple(_moves(given, owners, deserted, excess))


class _Places:
    """The workers that can learn one more task: those that have the least, then learn the least, then by name."""

    def __init__(
        self, limits: Limits, excess: Excess, stops: Mapping[WorkerId, int], busy: Mapping[WorkerId, int]
    ) -> None:
        self._excess = excess
        self._spare_extras = excess.spare_extras
        self._queue = [
            (load - stops.get(worker, 0), busy.get(worker, 0), worker, limits.per_worker - busy.get(worker, 0))
            for worker, load in excess.loads.items()
            if busy.get(worker, 0) < limits.per_worker
        ]
        heapify(self._queue)

    def of_leaving(self, number: int) -> dict[WorkerId, int]:
        """Choose learners for at most ``number`` tasks of leaving workers, wherever there is room, as these must go.

        :return: how many tasks each is to learn
        """
        quotas: dict[WorkerId, int] = {}
        for _ in range(number):
            if not self._queue:
                break
            self._take(quotas)
        return quotas

    def for_balance(self, stops: Mapping[WorkerId, int], quotas: dict[WorkerId, int]) -> Mapping[WorkerId, int]:
        """Add to ``quotas`` as many of the stops as balance has a place for; return the number of those by owner."""
        number = 0
        while number < sum(stops.values()) and self._queue and self._has_a_place(self._queue[0][0]):
            self._take(quotas)
            number += 1
        return limited(stops, number)

    def _has_a_place(self, load: int) -> bool:
        if load < self._excess.share:
            return True
        if load > self._excess.share or not self._spare_extras:
            return False
        self._spare_extras -= 1
        return True

    def _take(self, quotas: dict[WorkerId, int]) -> None:
        load, busy, worker, room = heappop(self._queue)
        quotas[worker] = quotas.get(worker, 0) + 1
        if room > 1:
            heappush(self._queue, (load + 1, busy + 1, worker, room - 1))


def _choose(tasks: Iterable[TaskId], number: int) -> list[TaskId]:
    """Choose one at a time from the job that has the most tasks there; ties go to the first, as in the proposal."""
    tasks = sorted(tasks)
    left = Counter(task.job for task in tasks)
    order: list[tuple[int, TaskId]] = []
    for task in tasks:
        order.append((-left[task.job], task))
        left[task.job] -= 1
    return [task for _, task in nsmallest(number, order)]


def _in_order(hands: Mapping[WorkerId, Iterable[TaskId]]) -> dict[WorkerId, list[TaskId]]:
    """Rearrange tasks within each job: each worker keeps its number, and the first tasks go to the first name."""
    jobs: defaultdict[str, list[TaskId]] = defaultdict(list)
    numbers: defaultdict[str, Counter[WorkerId]] = defaultdict(Counter)
    for worker, tasks in hands.items():
        for task in tasks:
            jobs[task.job].append(task)
            numbers[task.job][worker] += 1
    ordered: defaultdict[WorkerId, list[TaskId]] = defaultdict(list)
    for job, tasks in jobs.items():
        queue = iter(sorted(tasks))
        for worker, number in sorted(numbers[job].items()):
            ordered[worker] += islice(queue, number)
    return ordered


def _moves(
    given: Mapping[WorkerId, Iterable[TaskId]], owners: Mapping[TaskId, WorkerId], deserted: Shares, excess: Excess
) -> Iterable[Move]:
    for learner, tasks in sorted(given.items()):
        of_owner: defaultdict[WorkerId, list[TaskId]] = defaultdict(list)
        for task in tasks:
            if owners[task] != learner:  # if the limits leave room nowhere else, the lesson waits
                of_owner[owners[task]].append(task)
        for owner, group in sorted(of_owner.items()):
            leaves = owner in deserted
            yield Move(
                tasks=frozenset(group),
                source=owner,
                target=learner,
                reason=MoveReason.LEAVING if leaves else MoveReason.BALANCE,
                load=None if leaves else Load(excess.loads[owner], excess.share),
            )
