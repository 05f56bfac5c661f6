"""The shares of a round, for each kind of task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from simulation.rounds import Round

from airflow_provider.values.model import TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The shares of the members that stay.

    :param is_of: whether a task is of this kind
    :param least: the least number for a member
    :param beside: the most tasks of another kind that count as well, for a member
    :param to_come: how many tasks it learns, less those of its own that others learn
    """

    is_of: Callable[[TaskId], bool]
    least: Callable[[WorkerId], int]
    beside: Callable[[WorkerId], int]
    to_come: Callable[[WorkerId], int]

    def load_of(self, worker: WorkerId, tasks: Iterable[TaskId]) -> int:
        """The most tasks that it has once all learned tasks have moved."""
        return sum(map(self.is_of, tasks)) + self.beside(worker) + self.to_come(worker)


def kept_by_draining(now: Round) -> Tasks:
    """What draining workers keep or get back, and the batch tasks that leaving ones finish: it is in nobody's share,
    unless others learn it.
    """
    return now.finishing.union(*(now.target[worker] for worker in now.draining & now.owned.keys() - now.staying))


def shares_of(now: Round) -> Iterator[Share]:
    """The shares of planners, of stateful tasks, and of the others, which are spread around those, except tasks by
    cost. Draining workers keep theirs.
    """
    if not now.staying:
        return
    kept = kept_by_draining(now)
    if now.lessons is not None:
        kept -= frozenset[TaskId]().union(*now.lessons.learning.values())
    spread = now.configured - kept
    stateful = sum(map(now.has_state, spread))
    planners = sum(task.is_planner for task in spread)
    by_cost = spread & now.by_cost

    def nothing(_worker: WorkerId) -> int:
        return 0

    def to_come(worker: WorkerId) -> int:
        assert now.lessons is not None
        return len(now.lessons.learning[worker]) - len(now.lessons.learned[worker])

    yield Share(is_of=lambda task: task.is_planner, least=evenly(now, planners), beside=nothing, to_come=nothing)
    with_state = by_slots(now, stateful)
    if stateful:
        yield Share(is_of=now.has_state, least=with_state, beside=nothing, to_come=to_come)
    yield Share(
        is_of=lambda task: not task.is_planner and not now.has_state(task) and task not in by_cost,
        least=by_slots(now, len(spread) - planners - len(by_cost)),
        beside=lambda worker: with_state(worker) + 1 if stateful else 0,
        to_come=nothing,
    )


def evenly(now: Round, number: int) -> Callable[[WorkerId], int]:
    """The whole part of each quota of so many tasks, if each member counts the same."""
    staying = sum(map(now.weight_of, now.staying))
    return lambda worker: number // staying * now.weight_of(worker)


def by_slots(now: Round, number: int) -> Callable[[WorkerId], int]:
    """The same, in proportion to the slots of the members that stay."""
    told = now.record.slots
    known = [told[worker] for worker in now.staying if worker in told]
    if len(set(known)) <= 1:
        return evenly(now, number)
    mean = Fraction(sum(known), len(known))
    together = sum(told.get(worker, mean) for worker in now.staying)
    return lambda worker: int(number * told.get(worker, mean) / together)
