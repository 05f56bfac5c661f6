"""How many stateful tasks the workers that stay have above their shares, and which of those that wait they give up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider.assignment.balancing.balance import choose
from airflow_provider.assignment.balancing.portions import Portions
from airflow_provider.assignment.model import Load
from airflow_provider.assignment.shares import Numbers, Shares
from airflow_provider.values.model import NO_TASKS, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """How many stateful tasks the workers that stay have above their shares.

    :param may_have: what each may have of all stateful tasks
    :param loads: how many each has, including what it learns and without what others learn of its tasks
    """

    may_have: Portions
    loads: Numbers

    @property
    def above(self) -> dict[WorkerId, int]:
        """The workers above their shares, and by how many."""
        whole = self.may_have.whole
        return {worker: load - whole[worker] for worker, load in self.loads.items() if load > whole[worker]}

    @property
    def spare_extras(self) -> int:
        """How many of the workers that are not above their shares may have one more than that."""
        return max(0, self.may_have.extras - len(self.above))

    @property
    def least(self) -> WorkerId:
        """The worker that has the least for its share."""
        return min(self.loads, key=lambda worker: (*self.lead(worker), worker))

    def lead(self, worker: WorkerId, fewer: int = 0) -> tuple[int, int]:
        """How far a worker is ahead of others: what it has above its share, then how little speaks for one more.

        :param fewer: if it had so many tasks less
        """
        return self.loads[worker] - fewer - self.may_have.whole[worker], -self.may_have.rest.get(worker, 0)

    def load_of(self, worker: WorkerId) -> Load:
        """What a worker has, and its share."""
        return Load(self.loads[worker], self.may_have.whole[worker])

    def stops(self, waiting: Shares) -> Numbers:
        """How many each has to give up, as few as possible: all above its share, or all but one. Those come first that
        have not started one more, so that nothing has to be learned for it, then those with the smallest remainders.

        :param waiting: the tasks of each worker that have not started
        """
        above, rest = self.above, self.may_have.rest
        order = sorted(
            above, key=lambda worker: (len(waiting.get(worker, NO_TASKS)) < above[worker], rest.get(worker, 0), worker)
        )
        keep_one_more = set(order[max(0, len(order) - self.may_have.extras) :])
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

    def takers(self, idle: Shares) -> set[WorkerId]:
        """The workers to which that goes which others give up because it has not started."""
        number = sum(map(len, idle.values()))
        if not number:
            return set()
        if self.may_have.equal:
            least = min(self.loads.values())
            return {worker for worker, load in self.loads.items() if load == least}
        left = {worker: load - len(idle.get(worker, NO_TASKS)) for worker, load in self.loads.items()}
        return {worker for worker, seats in self.may_have.seats(left, number).items() if seats}

    def misplaced(self, waiting: Shares, beside: Numbers, places: Iterable[WorkerId]) -> Shares:
        """If the tasks with state are even: those that wait at a worker with one more than the share, although another
        worker has no more than the share and, with its other tasks, at least two tasks fewer. One of each worker. None
        if workers differ in slots: then numbers of tasks say little about who has a slot free.

        :param waiting: the tasks with state of each worker that have not started
        :param beside: how many tasks without state each worker has
        :param places: the workers that may get one more task
        """
        if not self.may_have.equal or any(self.stops(waiting).values()):
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
        """How many each worker that stays has when all is even. Those that keep the most for their shares have one
        more.

        :param stops: how many running tasks each has to give up
        """
        whole, extras = self.may_have.whole, self.may_have.extras
        leads = [(self.lead(worker, stops.get(worker, 0)), worker) for worker in self.loads]
        order = sorted((-above, rest, worker) for (above, rest), worker in leads)
        return {worker: whole[worker] + (position < extras) for position, (*_, worker) in enumerate(order)}
