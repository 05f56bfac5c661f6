"""How many stateful tasks the workers that stay have above their shares, and which of those that wait they give up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider.assignment.balancing.balance import choose
from airflow_provider.assignment.shares import Numbers, Shares
from airflow_provider.values.model import NO_TASKS, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """How many stateful tasks the workers that stay have above their shares.

    :param share: how many each has at least when all is even
    :param extras: how many workers may have one more
    :param loads: how many each has, including what it learns and without what others learn of its tasks
    """

    share: int
    extras: int
    loads: Numbers

    @property
    def above(self) -> dict[WorkerId, int]:
        """The workers above the share, and by how many."""
        return {worker: load - self.share for worker, load in self.loads.items() if load > self.share}

    @property
    def spare_extras(self) -> int:
        """How many of the workers that are not above the share may have one more than that."""
        return max(0, self.extras - len(self.above))

    def stops(self, waiting: Shares) -> Numbers:
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

    def misplaced(self, waiting: Shares, beside: Numbers, places: Iterable[WorkerId]) -> Shares:
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

    def even(self, stops: Numbers) -> dict[WorkerId, int]:
        """How many each worker that stays has when all is even. Those that keep the most have one more.

        :param stops: how many running tasks each has to give up
        """
        left = {worker: load - stops.get(worker, 0) for worker, load in self.loads.items()}
        order = sorted(left, key=lambda worker: (-left[worker], worker))
        return {worker: self.share + (position < self.extras) for position, worker in enumerate(order)}
