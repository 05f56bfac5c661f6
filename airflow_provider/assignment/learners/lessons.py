"""Chooses which stateful tasks are learned from now on, and by whom.

All tasks of a worker that leaves soon are learned by those that stay. Then, for balance, as many tasks of each worker
are learned as it has above its share. Nothing stops for that. Limits say how much is learned at the same time; the rest
keeps running where it is until there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain, islice

from airflow_provider.assignment.balancing.balance import limited, thin_out
from airflow_provider.assignment.balancing.dealing import by_job, deal
from airflow_provider.assignment.learners.excess import Excess
from airflow_provider.assignment.learners.model import LearnerRound, Limits
from airflow_provider.assignment.learners.stateful import Stateful
from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.assignment.shares import Numbers, grouped
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId


def begin(round: LearnerRound, limits: Limits, stateful: Stateful, stops: Numbers) -> tuple[Move, ...]:  # noqa: A002
    """Choose the lessons that begin with this round, as moves to come.

    :param stops: how many running tasks each worker gives up for balance now
    """
    if not stateful.tasks or not stateful.shares:
        return ()
    excess, busy = stateful.excess, Counter(lesson.worker for lesson in stateful.further.lessons.values())
    candidates = round.of_staying(stateful.running)
    deserted = {worker: tasks for worker, tasks in stateful.running.items() if worker in round.leaving_soon}
    room = max(0, limits.per_group - busy.total())
    of_leaving = {task: worker for worker, tasks in deserted.items() for task in tasks}
    first = list(islice(sorted(of_leaving), room))
    places = _Places(limits, excess, stops, busy)
    quotas = places.of_leaving(len(first))
    above = {worker: min(number, len(candidates.get(worker, NO_TASKS))) for worker, number in stops.items()}
    numbers = places.for_balance(limited(above, max(0, room - len(first))), quotas)
    of_staying = {
        task: worker
        for worker, number in numbers.items()
        for task in thin_out(sorted(candidates[worker]), number, Counter(task.job for task in candidates[worker]))
    }
    chosen = [*islice(first, quotas.total() - sum(numbers.values())), *of_staying]
    owners = {**of_leaving, **of_staying}
    given = _in_order(deal(chosen, {worker: -number for worker, number in quotas.items()}, stateful.shares))
    return tuple(
        Move(
            tasks=group,
            source=owner,
            target=learner,
            reason=MoveReason.LEAVING if owner in deserted else MoveReason.BALANCE,
            load=None if owner in deserted else excess.load_of(owner),
        )
        for learner, tasks in given.items()
        for owner, group in grouped((task, owners[task]) for task in tasks).items()
        if owner != learner  # if the limits leave room nowhere else, the lesson waits
    )


class _Places:
    """The workers that can learn one more task: those that have the least for their shares, then learn the least, then
    by name.
    """

    def __init__(self, limits: Limits, excess: Excess, stops: Numbers, busy: Counter[WorkerId]) -> None:
        self._spare_extras = excess.spare_extras
        self._queue = [
            (*excess.lead(worker, stops.get(worker, 0)), busy[worker], worker, limits.per_worker - busy[worker])
            for worker in excess.loads
            if busy[worker] < limits.per_worker
        ]
        heapify(self._queue)

    def of_leaving(self, number: int) -> Counter[WorkerId]:
        """Choose learners for at most ``number`` tasks of leaving workers, wherever there is room, as these must go.

        :return: how many tasks each is to learn
        """
        quotas: Counter[WorkerId] = Counter()
        while self._queue and quotas.total() < number:
            self._take(quotas)
        return quotas

    def for_balance(self, stops: Numbers, quotas: Counter[WorkerId]) -> Numbers:
        """Add to ``quotas`` as many of the stops as balance has a place for; return the number of those by owner."""
        number = 0
        while number < sum(stops.values()) and self._queue and self._has_a_place(self._queue[0][0]):
            self._take(quotas)
            number += 1
        return limited(stops, number)

    def _has_a_place(self, above: int) -> bool:
        if above < 0:
            return True
        if above or not self._spare_extras:
            return False
        self._spare_extras -= 1
        return True

    def _take(self, quotas: Counter[WorkerId]) -> None:
        above, rest, busy, worker, room = heappop(self._queue)
        quotas[worker] += 1
        if room > 1:
            heappush(self._queue, (above + 1, rest, busy + 1, worker, room - 1))


def _in_order(hands: Mapping[WorkerId, Iterable[TaskId]]) -> dict[WorkerId, list[TaskId]]:
    """By name, tasks rearranged within each job: each worker keeps its number, and the first name gets the first."""
    queues = {job: iter(tasks) for job, tasks in by_job(chain.from_iterable(hands.values())).items()}
    return {worker: [next(queues[task.job]) for task in hands[worker]] for worker in sorted(hands)}
