"""Makes the result of a round: who starts and stops what, and why, and what to remember."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from airflow_provider.assignment.lost import LostWork
from airflow_provider.assignment.model import GroupAssignment, Load, Memory, Move, MoveReason, Round
from airflow_provider.assignment.moving.pace import Pace
from airflow_provider.assignment.replanned import still_planned
from airflow_provider.assignment.shares import Shares, minus, plus
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How what is owned differs from what was assigned and from what is configured.

    :param removed: owned, but not configured
    :param duplicated: owned by more than one member
    :param created: configured, and neither owned nor assigned before
    :param lost: assigned before, configured, and owned by nobody: each with the worker that had it
    """

    removed: Tasks
    duplicated: Tasks
    created: Tasks
    lost: Mapping[TaskId, WorkerId]

    @property
    def stopped(self) -> Tasks:
        """Everything that has to stop because it is removed or duplicated."""
        return self.removed | self.duplicated

    def without(self, tasks: Tasks) -> Difference:
        """A difference in which none of these tasks is lost or new."""
        if not tasks:
            return self
        lost = {task: worker for task, worker in self.lost.items() if task not in tasks}
        return replace(self, created=minus(self.created, tasks), lost=lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """What a round changes in the members' shares.

    :param kept: what each member has without removed and duplicated tasks
    :param taken: what a member stops because it is above its share
    :param given: what a member starts
    :param over: the members above their shares, of planners and of tasks
    """

    kept: Shares
    taken: Shares
    given: Shares
    over: tuple[Mapping[WorkerId, Load], Mapping[WorkerId, Load]] = ({}, {})


class Why(NamedTuple):
    """Why a task starts or stops, who had it, if known, and that worker's load, if it gave the task up for balance."""

    reason: MoveReason
    source: WorkerId | None = None
    load: Load | None = None


def explained(moves: Iterable[Move], whys: Mapping[TaskId, Why]) -> Iterator[Move]:
    """Replace the reasons of moves for certain tasks. Moves are split where only some of their tasks are concerned."""
    known = frozenset(whys)
    for move in moves:
        named = move.tasks & known
        if len(named) < len(move.tasks):
            yield replace(move, tasks=minus(move.tasks, named))
        groups: defaultdict[Why, list[TaskId]] = defaultdict(list)
        for task in sorted(named):
            groups[whys[task]].append(task)
        for why, tasks in groups.items():
            yield Move(tasks=frozenset(tasks), source=why.source, target=move.target, reason=why.reason, load=why.load)


def write_down(
    round: Round,  # noqa: A002
    memory: Memory,
    difference: Difference,
    lost_work: LostWork,
    decided: Pace,
    shuffle: Shuffle,
) -> GroupAssignment:
    """Make the assignment of a round."""
    kept, stopped = shuffle.kept, difference.stopped
    taken = {worker: shuffle.taken.get(worker, NO_TASKS) for worker in kept}
    assigned = {worker: shuffle.given.get(worker, NO_TASKS) for worker in kept}
    revoked = {worker: plus(round.owned[worker] & stopped, tasks) for worker, tasks in taken.items()}
    target = {worker: plus(minus(tasks, taken[worker]), assigned[worker]) for worker, tasks in kept.items()}
    stops = tuple(_stops(round.owned, revoked, difference, shuffle))
    starts = tuple(_starts(assigned, difference, memory, shuffle, back=lost_work.own.keys()))
    return GroupAssignment(
        assigned=assigned,
        revoked=revoked,
        target=target,
        delay_ms=decided.delay_ms,
        moves=stops + starts,
        memory=Memory(
            generation=round.generation,
            assignment=_with_waiting(target, lost_work.waiting) if lost_work.waiting else target,
            revoked=NO_TASKS.union(*revoked.values()),
            members=frozenset(round.owned),
            candidates=lost_work.candidates,
            deadline_ms=decided.deadline_ms,
            revoked_in_previous=decided.revoked_in_previous,
            successive_revocations=decided.successive_revocations,
            next_moves_at_ms=decided.next_moves_at_ms,
            released=tuple(_unfinished(stops)),
            awaited=lost_work.awaited,
            former=still_planned(round, memory, difference.removed),
        ),
    )


def _with_waiting(target: Shares, waiting: Shares) -> dict[WorkerId, Tasks]:
    """The assignment; lost work that waits is still with the worker that had it."""
    return {**target, **{worker: plus(target.get(worker, NO_TASKS), tasks) for worker, tasks in waiting.items()}}


def _stops(owned: Shares, revoked: Shares, difference: Difference, shuffle: Shuffle) -> Iterator[Move]:
    gone = difference.stopped
    for worker, tasks in revoked.items():
        if not tasks:
            continue
        stopped = tasks & owned[worker]
        for reason, of_it in (
            (MoveReason.DELETED, stopped & difference.removed),
            (MoveReason.DUPLICATE, stopped & difference.duplicated - difference.removed),
        ):
            if of_it:
                yield Move(tasks=of_it, source=worker, target=None, reason=reason)
        yield from _balancing(stopped - gone, worker, None, shuffle)


def _balancing(tasks: Iterable[TaskId], source: WorkerId, target: WorkerId | None, shuffle: Shuffle) -> Iterator[Move]:
    """Moves for balance; planners and tasks are counted separately."""
    planners = frozenset([task for task in tasks if task.is_planner])
    for of_kind, over in zip((planners, frozenset(tasks) - planners), shuffle.over, strict=True):
        if of_kind:
            yield Move(tasks=of_kind, source=source, target=target, reason=MoveReason.BALANCE, load=over.get(source))


def _unfinished(stops: Iterable[Move]) -> Iterator[Move]:
    """Of the moves that stop tasks, those that the next round completes with a start."""
    for move in stops:
        if move.reason is MoveReason.BALANCE:
            yield move
        elif move.reason is MoveReason.DUPLICATE:
            yield replace(move, source=None)


def _starts(
    assigned: Shares, difference: Difference, memory: Memory, shuffle: Shuffle, *, back: Collection[WorkerId]
) -> Iterator[Move]:
    """:param back: workers that get back what they have lost, as far as it is within their shares"""
    origins = {task: Why(MoveReason.LOST, worker) for task, worker in difference.lost.items()}
    released = {task: Why(move.reason, move.source, move.load) for move in memory.released for task in move.tasks}
    former = {
        task: Why(MoveReason.NEW, worker)
        for worker, tasks in memory.former.items()
        for task in tasks & difference.created
    }
    starts = (
        Move(tasks=tasks, source=None, target=worker, reason=MoveReason.NEW)
        for worker, tasks in assigned.items()
        if tasks
    )
    for move in explained(starts, {**former, **origins, **released}):
        if move.reason is MoveReason.LOST and move.source == move.target:
            yield replace(move, reason=MoveReason.RETURNED)
        elif move.reason is MoveReason.LOST and move.source in back:
            assert move.source is not None
            yield from _balancing(move.tasks, move.source, move.target, shuffle)
        else:
            yield move
