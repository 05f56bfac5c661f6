"""What a round shares out, each kind by itself: planners, tasks by number, and tasks by cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider.assignment.balancing.balance import NOTHING_FIXED, Pool
from airflow_provider.assignment.balancing.by_cost import CostPool
from airflow_provider.assignment.draining import Draining
from airflow_provider.assignment.model import Load, Memory, Round
from airflow_provider.assignment.shares import Shares, minus, plus
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

Over = tuple[Mapping[WorkerId, Load], Mapping[WorkerId, Load]]
"""The members that give something up: planners, and tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Which tasks are of which kind; those of no kind named here are shared out by number.

    :param by_cost: those that are shared out by cost
    """

    planners: Tasks
    by_cost: Tasks = NO_TASKS

    @classmethod
    def of(cls, round: Round) -> Kinds:  # noqa: A002  # it is KIP-415's word
        return replace(cls.by_number(round), by_cost=round.costs.among(round.configured))

    @classmethod
    def by_number(cls, round: Round) -> Kinds:  # noqa: A002
        """The kinds if costs are ignored: planners, and all others."""
        return cls(planners=frozenset([task for task in round.configured if task[1] < 0]))

    def split(self, tasks: Tasks) -> tuple[Tasks, Tasks, Tasks]:
        """Those of these tasks that are planners, tasks by number, and tasks by cost."""
        planners, by_cost = tasks & self.planners, tasks & self.by_cost if self.by_cost else NO_TASKS
        return planners, minus(minus(tasks, planners), by_cost), by_cost

    def stays(self, round: Round) -> Tasks:  # noqa: A002
        """The tasks by number that do not move in this round. Tasks by cost are never stopped while they run."""
        return self.split(plus(round.stays, round.tried.pinned))[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of a round, one for each kind."""

    kinds: Kinds
    of_each: tuple[Pool, Pool] | tuple[Pool, Pool, CostPool]

    @property
    def stops(self) -> int:
        """How many tasks would have to stop so that nobody has more than its share."""
        return sum(pool.stops for pool in self.of_each)

    @property
    def returned(self) -> tuple[Shares, ...]:
        """What members get back of their own tasks, for each kind."""
        return tuple(pool.returned for pool in self.of_each)

    def relieve(self, rank: Mapping[TaskId, int], most_stops: int) -> Iterator[Shares]:
        """Take from each worker what is above its share: planners first, because they stop and start quickly.

        :param rank: see :func:`.balance.choose`
        """
        for pool in self.of_each:
            limit = min(most_stops, pool.stops)
            most_stops -= limit
            yield pool.relieve(rank, limit)

    def place(self, tasks: Tasks) -> list[Mapping[WorkerId, Iterable[TaskId]]]:
        """Give tasks to the members that have the least."""
        pools: Iterable[Pool | CostPool] = self.of_each
        return [pool.place(of_kind) for pool, of_kind in zip(pools, self.kinds.split(tasks), strict=False)]

    def over(self, drains: Draining) -> Over:
        """The members that give something up: how much each has, and how much it may keep. A share by cost is no number
        of tasks.
        """
        planners, tasks, *_ = self.of_each
        draining_planners, draining_tasks = drains.over(self.kinds.planners)
        return {**planners.over, **draining_planners}, {**tasks.over, **draining_tasks}


def pools_of(
    round: Round,  # noqa: A002
    memory: Memory,
    kinds: Kinds,
    drains: Draining,
    kept: Shares,
    own: Shares,
    free: Tasks,
    fixed: Mapping[WorkerId, int] = NOTHING_FIXED,
) -> Pools:
    """The pools of a round.

    :param kept: the tasks of members that may move
    :param own: the tasks that some members are to get back
    :param free: the tasks that anybody may start
    :param fixed: how many more tasks by number each member has
    """
    kept_of, own_of = _by_kind(drains.others(kept), kinds), _by_kind(drains.others(own), kinds)
    draining = drains.kept
    of_planners, of_cost = (len(tasks) - len(draining & tasks) for tasks in (kinds.planners, kinds.by_cost))
    of_tasks = len(round.configured) - len(draining) - of_planners - of_cost
    planners = Pool(of_planners, kept_of[0], own_of[0])
    tasks = Pool(of_tasks, kept_of[1], own_of[1], fixed, round.costs.slots)
    if not kinds.by_cost:
        return Pools(kinds=kinds, of_each=(planners, tasks))
    to_place = plus(free, NO_TASKS.union(*drains.waits.values())) & kinds.by_cost
    stays = kinds.stays(round) & round.configured
    by_number = {
        worker: of_worker | tasks.returned.get(worker, NO_TASKS) | round.owned[worker] & stays
        for worker, of_worker in kept_of[1].items()
    }
    costs = round.costs.beside({worker: round.costs.taken_by(of_worker) for worker, of_worker in by_number.items()})
    by_cost = CostPool(kept_of[2], own_of[2], to_place, costs, calm=memory.revoked_in_previous)
    return Pools(kinds=kinds, of_each=(planners, tasks, by_cost))


def _by_kind(shares: Shares, kinds: Kinds) -> tuple[Shares, Shares, Shares]:
    split = {worker: kinds.split(tasks) for worker, tasks in shares.items()}
    planners, by_number, by_cost = ({worker: tasks[kind] for worker, tasks in split.items()} for kind in range(3))
    return planners, by_number, by_cost
