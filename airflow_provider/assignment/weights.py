"""A round in which a member counts as several workers, as the bridge of a declarative group does (KIP-848's migration).

The assignor treats all workers alike. So such a member is replaced by as many workers as it stands for, its *parts*,
each with an even part of its tasks. Afterwards, what the parts were given is put together again. The first part has the
member's name, and everything that is known about it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from airflow_provider.assignment import cooperative, eager
from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.assignment.model import GroupAssignment, Load, Memory, Move, MoveReason, Round
from airflow_provider.assignment.policy import Policy
from airflow_provider.assignment.shares import Shares, merged
from airflow_provider.values.model import TaskId, Tasks, WorkerId

Weights = Mapping[WorkerId, int]
"""How many workers each member stands for; 1 if missing."""

_Part = tuple[WorkerId, ...]
_Parts = Mapping[WorkerId, _Part]


def assign(round: Round, memory: Memory, *, policy: Policy, weights: Weights) -> GroupAssignment:  # noqa: A002
    """Compute one cooperative round; see :func:`.cooperative.assign`.

    :param weights: 1 or more
    :raises ValueError: for a round without members
    """
    parts = _parts(round.owned, weights)
    if not parts:
        return cooperative.assign(round, memory, policy=policy)
    owned = _split(round.owned, parts, round.configured - _owned_twice(round.owned))
    outcome = cooperative.assign(
        replace(round, owned=owned, named=round.named | _all_of(parts, round.named)),
        replace(
            memory,
            assignment=_as_owned(memory.assignment, owned, parts),
            members=memory.members | _all_of(parts, memory.members),
        ),
        policy=policy,
    )
    return _together(outcome, _whole(parts))


def assign_eagerly(
    members: Collection[WorkerId], configured: Tasks, weights: Weights, costs: Costs = NO_COSTS
) -> Mapping[WorkerId, Tasks]:
    """Deal out everything again; see :func:`.eager.assign`.

    :raises ValueError: for a group without members
    """
    parts = _parts(members, weights)
    of_all = [part for member in members for part in parts.get(member, (member,))]
    return _merged(eager.assign(of_all, configured, costs), _whole(parts))


def split(shares: Shares, weights: Weights, *, kept: Tasks) -> dict[WorkerId, Tasks]:
    """The tasks of each part: planners and other tasks are dealt out evenly, and in the same way each time.

    :param kept: tasks that nobody has to stop; these alone are dealt out evenly, too
    """
    return _split(shares, _parts(shares, weights), kept)


def _split(shares: Shares, parts: _Parts, kept: Tasks) -> dict[WorkerId, Tasks]:
    return {
        part: tasks
        for worker, share in shares.items()
        for part, tasks in (_dealt(share, parts[worker], kept) if worker in parts else ((worker, share),))
    }


def _parts(members: Container[WorkerId], weights: Weights) -> _Parts:
    """The parts of the members that have several. No worker has a name with NUL."""
    return {
        worker: (worker, *(WorkerId(f"{worker}\0{number}") for number in range(2, weight + 1)))
        for worker, weight in weights.items()
        if weight > 1 and worker in members
    }


def _whole(parts: _Parts) -> dict[WorkerId, WorkerId]:
    """The member to which each part belongs."""
    return {part: worker for worker, named in parts.items() for part in named}


def _owned_twice(owned: Shares) -> Tasks:
    counts = Counter(chain.from_iterable(owned.values()))
    return frozenset(task for task, count in counts.items() if count > 1)


def _dealt(tasks: Tasks, parts: _Part, kept: Tasks) -> Iterable[tuple[WorkerId, Tasks]]:
    in_order = [*sorted(tasks & kept), *sorted(tasks - kept)]
    planners = [task for task in in_order if task.is_planner]
    others = [task for task in in_order if not task.is_planner]
    return (
        (part, frozenset(planners[place :: len(parts)] + others[place :: len(parts)]))
        for place, part in enumerate(parts)
    )


def _all_of(parts: _Parts, workers: frozenset[WorkerId]) -> frozenset[WorkerId]:
    return frozenset(part for worker in workers & parts.keys() for part in parts[worker])


def _as_owned(assignment: Shares, owned: Shares, parts: _Parts) -> dict[WorkerId, Tasks]:
    """Give each assigned task to the part that owns it. A task that no part owns was lost by the first part."""
    placed = dict(assignment)
    for worker, named in parts.items():
        if worker in assignment:
            placed.update((part, owned[part] & assignment[worker]) for part in named)
            placed[worker] |= assignment[worker].difference(*(owned[part] for part in named))
    return placed


def _together(outcome: GroupAssignment, whole: Mapping[WorkerId, WorkerId]) -> GroupAssignment:
    """Put the parts of an outcome together.

    :param whole: the member to which each part belongs
    """
    memory = outcome.memory
    assigned, revoked = _merged(outcome.assigned, whole), _merged(outcome.revoked, whole)
    return replace(
        outcome,
        assigned=assigned,
        revoked=revoked,
        target=_merged(outcome.target, whole),
        memory=replace(
            memory,
            assignment=_merged(memory.assignment, whole),
            members=frozenset(whole.get(worker, worker) for worker in memory.members),
            candidates=tuple(dict.fromkeys(whole.get(worker, worker) for worker in memory.candidates)),
            released=_moves(memory.released, whole),
            former=_merged(memory.former, whole),
        ),
        moves=_moves(outcome.moves, whole),
    )


def _merged(shares: Shares, whole: Mapping[WorkerId, WorkerId]) -> dict[WorkerId, Tasks]:
    return merged({whole.get(worker, worker): tasks} for worker, tasks in shares.items())


def _moves(moves: Iterable[Move], whole: Mapping[WorkerId, WorkerId]) -> tuple[Move, ...]:
    """One move for all tasks that move in the same way. The load of a part is not that of its member."""
    ways: defaultdict[tuple[WorkerId | None, WorkerId | None, MoveReason, Load | None], set[TaskId]] = defaultdict(set)
    for move in moves:
        source = None if move.source is None else whole.get(move.source, move.source)
        target = None if move.target is None else whole.get(move.target, move.target)
        load = None if source in whole else move.load
        ways[source, target, move.reason, load] |= move.tasks
    return tuple(
        Move(tasks=frozenset(tasks), source=source, target=target, reason=reason, load=load)
        for (source, target, reason, load), tasks in ways.items()
    )
