"""What a round shares out, each kind by itself: planners, tasks by number, or those of each size, and tasks by cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from airflow_provider.assignment.balancing.balance import NO_LIMIT, Pool
from airflow_provider.assignment.balancing.by_cost import CostPool
from airflow_provider.assignment.balancing.by_size import OfSize, Room, pools_by_size
from airflow_provider.assignment.balancing.portions import portions, slots_or_mean
from airflow_provider.assignment.costs import slots_for
from airflow_provider.assignment.draining import Draining, draining
from airflow_provider.assignment.model import NONE_ELSEWHERE, Load, Memory, Round
from airflow_provider.assignment.shares import NO_NUMBERS, NO_SHARES, Numbers, Shares, all_of, both, merged, minus, plus
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


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

    def over(self, drains: Draining) -> tuple[Mapping[WorkerId, Load], Mapping[WorkerId, Load]]:
        """The members that give up planners, and those that give up tasks: how much each has, and how much it may keep.
        A share by cost or by size is no number of tasks.
        """
        planners, by_number, *_ = self.of_each
        draining_planners, draining_tasks = drains.over(self.kinds.planners)
        return {**planners.over, **draining_planners}, {**by_number.over, **draining_tasks}


class SharedWork:
    """The work that members share out. Streams, and other tasks by number, go first where batch tasks that are shared
    out by cost leave slots free. These in turn get no slots that streams have, or get in this round or in the next.

    :param drains: members that drain, whose work is not counted
    :param left: the tasks that members keep as far as it is decided, whether they may move or not
    :param own: the tasks that some members are to get back
    :param free: the tasks that anybody may start
    :param places: the tasks that some members get, whatever their shares are
    :param beside: how much more each member has that does not move (:meth:`Kinds.load_of`)
    """

    def __init__(
        self,
        round: Round,  # noqa: A002
        kinds: Kinds,
        drains: Draining,
        left: Shares,
        own: Shares,
        free: Tasks,
        places: Shares = NO_SHARES,
        beside: Numbers = NO_NUMBERS,
    ) -> None:
        self._round, self._costs, self._kinds, self._beside = round, round.costs, kinds, beside
        self._kept, self._still, self._fixed = drains.others(left), NO_SHARES, beside
        stays = kinds.by_slots(plus(round.stays, round.tried.pinned))  # by cost, nothing is stopped while it runs
        if stays or places:
            self._still = {
                worker: plus(both(tasks, stays), kinds.by_slots(places.get(worker, NO_TASKS)))
                for worker, tasks in self._kept.items()
            }
            self._kept = {worker: minus(tasks, stays) for worker, tasks in self._kept.items()}
            self._fixed = {worker: beside.get(worker, 0) + kinds.load_of(has) for worker, has in self._still.items()}
        self._own = drains.others(own)
        self._to_place = plus(free, all_of(drains.waits))

        def number(tasks: Tasks) -> int:
            return len(tasks) - len(tasks & drains.kept)

        planners = number(kinds.planners)
        wide = sum([(size - 1) * number(of_size) for size, of_size in kinds.wide.items()])
        self._total = number(round.configured) - planners - number(kinds.by_cost) + wide
        slots = {worker: -(-has // kinds.size) for worker, has in self._costs.slots.items()}
        stands_for = self._costs.stands_for
        self._planners_have = portions(planners, self._kept, stands_for=stands_for)
        self._may_have = portions(self._total, self._kept, slots, stands_for)
        self._capacity = slots_or_mean(self._kept, slots, stands_for)

    def pools(self, memory: Memory, most_stops: int = NO_LIMIT) -> Pools:
        """The pools of a round.

        :param most_stops: how many tasks this round may take from members for balance
        """
        kinds = self._kinds
        if self.is_at_rest:
            return Pools(kinds=kinds, of_each=(_AT_REST,) * (2 + len(kinds.wide)))
        by_slots = self._by_slots()
        by_cost = [self._by_cost(by_slots, most_stops, calm=memory.revoked_in_previous)] if kinds.by_cost else []
        return Pools(kinds=kinds, of_each=(self._planners(), *by_slots, *by_cost))

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody has more than its share, and what waits can start where it is, or nowhere. Most rounds are
        like that, and need not split the tasks by size.
        """
        kinds = self._kinds
        if not kinds.wide or kinds.by_cost or self._to_place or any(self._own.values()):
            return False
        planners = {worker: len(tasks & kinds.planners) for worker, tasks in self._kept.items()}
        loads = {
            worker: kinds.load_of(tasks) - planners[worker] + self._fixed.get(worker, 0)
            for worker, tasks in self._kept.items()
        }
        free = [self._capacity[worker] - load for worker, load in loads.items()]
        return (max(free) <= 0 or min(free) >= 0) and self._planners_have.hold(planners) and self._may_have.hold(loads)

    @cached_property
    def _of_kinds(self) -> list[tuple[Shares, Shares, Tasks]]:
        """Of each kind: what members keep, what they are to get back, and what is to be placed."""
        kept, own = _split(self._kept, self._kinds), _split(self._own, self._kinds)
        return list(zip(kept, own, self._kinds.split(self._to_place), strict=True))

    def _planners(self) -> Pool:
        return Pool(self._planners_have, *self._of_kinds[0][:2])

    def _by_slots(self) -> list[Pool]:
        """The tasks by number, or those of each size."""
        _, *of_sizes, (by_cost, _, _) = self._of_kinds
        large = self._costs.large
        busy = {worker: slots_for(tasks, large) for worker, tasks in by_cost.items()} if self._kinds.by_cost else {}
        if not self._kinds.wide and not (busy and any(self._capacity.values())):
            return [Pool(self._may_have, *of_sizes[0][:2], self._fixed, beside=busy)]
        sizes = [OfSize(size, *work) for size, work in zip((1, *self._kinds.wide), of_sizes, strict=True)]
        configured, started = self._round.configured, self._round.revocation_rank
        waiting = configured.difference(started) if started else configured
        return pools_by_size(sizes, self._may_have, self._room(busy), self._fixed, waiting)

    def _room(self, busy: Numbers) -> Room:
        """What batch tasks that are shared out by cost leave of the capacity.

        :param busy: how many slots those batch tasks take
        """
        shared = frozenset(worker for worker, number in busy.items() if number)
        slots = slots_or_mean(self._capacity, self._costs.slots, self._costs.stands_for)
        left = {worker: max(0, slots[worker] - busy[worker]) // self._kinds.size for worker in shared}
        room = {**self._capacity, **left}
        return Room(room, any(slots.values()) and sum(room.values()) < self._total, shared)

    def _by_cost(self, by_slots: Sequence[Pool], most_stops: int, *, calm: bool) -> CostPool:
        """The tasks by cost, which get no slots that the others have, or get in this round or in the next.

        :param by_slots: the pools of the others
        :param calm: see :class:`CostPool`
        """
        kinds, large = self._kinds, self._costs.large
        _, *of_sizes, (kept, own, to_place) = self._of_kinds
        given = [pool.place(tasks) for pool, (_, _, tasks) in zip(by_slots, of_sizes, strict=True)]
        returned = [pool.returned for pool in by_slots]
        never_end = merged((self._still, *[has for has, _, _ in of_sizes], *returned, *given))
        now = {worker: kinds.load_of(tasks) for worker, tasks in never_end.items()}
        then: Numbers = now
        for pool in by_slots:
            then = pool.given_out(then, most_stops)
        more = {worker: kinds.size * (then[worker] - load) for worker, load in now.items()}
        taken = {
            worker: slots_for(tasks, large) + more[worker] + self._beside.get(worker, 0)
            for worker, tasks in never_end.items()
        }
        return CostPool(kept, own, to_place, self._costs.beside(taken), calm=calm)


def above_shares(round: Round, shares: Shares) -> int:  # noqa: A002
    """How many planners and tasks would have to move so that nobody has more than its share."""
    round = replace(round, stays=NO_TASKS, tried=NONE_ELSEWHERE)  # noqa: A001
    work = SharedWork(round, Kinds.of(round), draining(round, shares), shares, NO_SHARES, NO_TASKS)
    return work.pools(Memory()).stops


def _split(shares: Shares, kinds: Kinds) -> list[Shares]:
    split = {worker: kinds.split(tasks) for worker, tasks in shares.items()}
    return [{worker: tasks[kind] for worker, tasks in split.items()} for kind in range(3 + len(kinds.wide))]
