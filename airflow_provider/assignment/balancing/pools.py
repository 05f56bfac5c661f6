"""What a round shares out, each kind by itself: planners, tasks by number, or those of each size, and tasks by cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider.assignment.balancing.balance import NO_LIMIT, Pool
from airflow_provider.assignment.balancing.by_cost import CostPool
from airflow_provider.assignment.balancing.by_size import OfSize, Room, pools_by_size
from airflow_provider.assignment.balancing.portions import Portions, portions, slots_or_mean
from airflow_provider.assignment.costs import Costs, slots_for
from airflow_provider.assignment.draining import Draining, draining
from airflow_provider.assignment.model import NONE_ELSEWHERE, Load, Memory, Round
from airflow_provider.assignment.shares import NO_NUMBERS, NO_SHARES, Numbers, Shares, all_of, both, merged, minus, plus
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

Over = tuple[Mapping[WorkerId, Load], Mapping[WorkerId, Load]]
"""The members that give something up: planners, and tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Which tasks are of which kind; those of no kind named here are shared out by number.

    :param by_cost: those that are shared out by cost
    :param wide: if the others differ in size: those that take several slots, by their size, the largest first
    :param size: how many slots each of the others takes
    """

    planners: Tasks
    by_cost: Tasks = NO_TASKS
    wide: Mapping[int, Tasks] = field(default_factory=dict)
    size: int = 1
    _split: Memo[Tasks, list[Tasks]] = field(default_factory=Memo, init=False, repr=False, compare=False)
    """A round splits what is to be placed more than once."""

    @classmethod
    def of(cls, round: Round, apart: Tasks = NO_TASKS) -> Kinds:  # noqa: A002  # it is KIP-415's word
        """:param apart: tasks that are shared out by themselves, by number"""
        planners = frozenset([task for task in round.configured if task[1] < 0])
        by_cost = round.costs.among(minus(round.configured, apart))
        others = plus(by_cost, apart)
        wide = round.costs.wide(minus(round.configured, others), round.owned) if round.costs.large else {}
        number = len(round.configured) - len(planners) - len(by_cost)
        if wide and number == len(next(iter(wide.values()))):
            return cls(planners=planners, by_cost=by_cost, size=max(wide))
        return cls(planners=planners, by_cost=by_cost, wide=wide)

    def split(self, tasks: Tasks) -> list[Tasks]:
        """Those of these tasks that are planners, that are shared out by number, that are of each size, and by cost."""
        return self._split.get(tasks, lambda: self._apart(tasks))

    def _apart(self, tasks: Tasks) -> list[Tasks]:
        planners, *others = (
            both(tasks, kind) if kind else NO_TASKS for kind in (self.planners, *self.wide.values(), self.by_cost)
        )
        apart = list(filter(None, (planners, *others)))
        return [planners, tasks.difference(*apart) if apart else tasks, *others]

    def by_slots(self, tasks: Tasks) -> Tasks:
        """Those of these tasks that are neither planners nor shared out by cost."""
        return minus(minus(tasks, self.planners), self.by_cost)

    def load_of(self, tasks: Tasks) -> int:
        """How many slots these tasks take; how many they are, if all are of the same size."""
        return slots_for(tasks, self.wide)

    def stays(self, round: Round) -> Tasks:  # noqa: A002
        """The tasks that do not move in this round. Tasks by cost are never stopped while they run."""
        return self.by_slots(plus(round.stays, round.tried.pinned))


_AT_REST: Final = Pool(portions(0, [WorkerId("")]), {}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of a round, one for each kind."""

    kinds: Kinds
    of_each: Sequence[Pool | CostPool]

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
        return [pool.place(of_kind) for pool, of_kind in zip(self.of_each, self.kinds.split(tasks), strict=False)]

    def over(self, drains: Draining) -> Over:
        """The members that give something up: how much each has, and how much it may keep. A share by cost or
        by size is no number of tasks.
        """
        planners, by_number, *_ = self.of_each
        draining_planners, draining_tasks = drains.over(self.kinds.planners)
        return {**planners.over, **draining_planners}, {**by_number.over, **draining_tasks}


def pools_of(
    round: Round,  # noqa: A002
    memory: Memory,
    kinds: Kinds,
    drains: Draining,
    left: Shares,
    own: Shares,
    free: Tasks,
    places: Shares = NO_SHARES,
    beside: Numbers = NO_NUMBERS,
    most_stops: int = NO_LIMIT,
) -> Pools:
    """The pools of a round. Streams, and other tasks by number, go first where batch tasks that are shared out by cost
    leave slots free. These in turn get no slots that streams have, or get in this round or in the next.

    :param left: the tasks that members keep as far as it is decided, whether they may move or not
    :param own: the tasks that some members are to get back
    :param free: the tasks that anybody may start
    :param places: the tasks that some members get, whatever their shares are
    :param beside: how much more each member has that does not move (:meth:`Kinds.load_of`)
    :param most_stops: how many tasks this round may take from members for balance
    """
    stays = kinds.stays(round)
    kept, fixed = left, beside
    if stays or places:
        kept = {worker: minus(tasks, stays) for worker, tasks in left.items()}
        fixed = {
            worker: beside.get(worker, 0)
            + kinds.load_of(minus(tasks, kept[worker]))
            + kinds.load_of(kinds.by_slots(places.get(worker, NO_TASKS)))
            for worker, tasks in left.items()
        }
    kept, own = drains.others(kept), drains.others(own)
    costs, runs_there = round.costs, drains.kept
    to_place = plus(free, all_of(drains.waits))
    of_planners, of_cost = (len(tasks) - len(runs_there & tasks) for tasks in (kinds.planners, kinds.by_cost))
    wide = sum([(size - 1) * len(minus(of_size, runs_there)) for size, of_size in kinds.wide.items()])
    total = len(round.configured) - len(runs_there) - of_planners - of_cost + wide
    size = kinds.size
    slots = {worker: -(-number // size) for worker, number in costs.slots.items()} if size > 1 else costs.slots
    planners_have = portions(of_planners, kept, stands_for=costs.stands_for)
    may_have = portions(total, kept, slots, costs.stands_for)
    capacity = slots_or_mean(kept, slots, costs.stands_for)
    moves = to_place or kinds.by_cost or any(own.values())
    if kinds.wide and not moves and _are_at_rest(kept, kinds, fixed, planners_have, may_have, capacity):
        return Pools(kinds=kinds, of_each=(_AT_REST, *[_AT_REST for _ in (1, *kinds.wide)]))
    kept_of, own_of = _by_kind(kept, kinds), _by_kind(own, kinds)
    planners = Pool(planners_have, kept_of[0], own_of[0])
    busy = {worker: slots_for(tasks, costs.large) for worker, tasks in kept_of[-1].items()} if kinds.by_cost else {}
    if kinds.wide or (busy and any(capacity.values())):
        sizes = [
            OfSize(size, kept_of[kind], own_of[kind], len(tasks))
            for kind, (size, tasks) in enumerate(zip((1, *kinds.wide), kinds.split(to_place)[1:], strict=False), 1)
        ]
        started = round.revocation_rank
        waiting = round.configured.difference(started) if started else round.configured
        by_slots = pools_by_size(sizes, may_have, _room(capacity, busy, costs, size, total), fixed, waiting)
    else:
        by_slots = [Pool(may_have, kept_of[1], own_of[1], fixed, beside=busy)]
    if not kinds.by_cost:
        return Pools(kinds=kinds, of_each=(planners, *by_slots))
    stay = {worker: plus(both(left[worker], stays), kinds.by_slots(places.get(worker, NO_TASKS))) for worker in kept}
    given = [pool.place(of_kind) for pool, of_kind in zip(by_slots, kinds.split(to_place)[1:], strict=False)]
    never_end = merged((stay, *kept_of[1:-1], *[pool.returned for pool in by_slots], *given))
    taken = _taken(never_end, kinds, by_slots, costs, most_stops)
    costs = costs.beside({worker: number + beside.get(worker, 0) for worker, number in taken.items()})
    by_cost = CostPool(kept_of[-1], own_of[-1], to_place & kinds.by_cost, costs, calm=memory.revoked_in_previous)
    return Pools(kinds=kinds, of_each=(planners, *by_slots, by_cost))


def _room(capacity: Numbers, busy: Numbers, costs: Costs, size: int, total: int) -> Room:
    """What batch tasks that are shared out by cost leave of the capacity.

    :param capacity: how many tasks of this size each member could have if there were no others
    :param busy: how many slots those batch tasks take
    """
    shared = frozenset(worker for worker, number in busy.items() if number)
    slots = slots_or_mean(capacity, costs.slots, costs.stands_for)
    left = {worker: max(0, slots[worker] - busy[worker]) // size for worker in shared}
    room = {**capacity, **left}
    return Room(room, any(slots.values()) and sum(room.values()) < total, shared)


def _taken(never_end: Shares, kinds: Kinds, pools: Iterable[Pool], costs: Costs, most_stops: int) -> Numbers:
    """How many slots of each member these tasks take, when the next round has given out what this one takes."""
    now = {worker: kinds.load_of(tasks) for worker, tasks in never_end.items()}
    then: Numbers = now
    for pool in pools:
        then = pool.given_out(then, most_stops)
    return {
        worker: slots_for(tasks, costs.large) + kinds.size * (then[worker] - now[worker])
        for worker, tasks in never_end.items()
    }


def above_shares(round: Round, shares: Shares) -> int:  # noqa: A002
    """How many planners and tasks would have to move so that nobody has more than its share."""
    round = replace(round, stays=NO_TASKS, tried=NONE_ELSEWHERE)  # noqa: A001
    return pools_of(round, Memory(), Kinds.of(round), draining(round, shares), shares, {}, NO_TASKS).stops


def _are_at_rest(
    kept: Shares, kinds: Kinds, fixed: Numbers, planners_have: Portions, may_have: Portions, capacity: Numbers
) -> bool:
    """Whether nobody has more than its share, and what waits can start where it is, or nowhere. Most rounds are like
    that, and need not split the tasks by size.
    """
    planners = {worker: len(tasks & kinds.planners) for worker, tasks in kept.items()}
    loads = {worker: kinds.load_of(tasks) - planners[worker] + fixed.get(worker, 0) for worker, tasks in kept.items()}
    free = [capacity[worker] - load for worker, load in loads.items()]
    return (max(free) <= 0 or min(free) >= 0) and planners_have.hold(planners) and may_have.hold(loads)


def _by_kind(shares: Shares, kinds: Kinds) -> list[Shares]:
    split = {worker: kinds.split(tasks) for worker, tasks in shares.items()}
    number = 3 + len(kinds.wide)
    return [{worker: tasks[kind] for worker, tasks in split.items()} for kind in range(number)]
