"""Gives moves reasons that KIP-415 does not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from airflow_provider.assignment.model import Load, Move, MoveReason
from airflow_provider.assignment.shares import Shares, minus
from airflow_provider.values.model import TaskId, WorkerId


class Why(NamedTuple):
    """Why a task starts or stops, who had it, if known, and that worker's load, if it gave the task up for balance."""

    reason: MoveReason
    source: WorkerId | None = None
    load: Load | None = None


def each(shares: Shares, reason: MoveReason) -> dict[TaskId, Why]:
    """Give all tasks of several workers the same reason."""
    return {task: Why(reason, worker) for worker, tasks in shares.items() for task in tasks}


def explained(moves: Iterable[Move], whys: Mapping[TaskId, Why]) -> Iterator[Move]:
    """Replace the reasons of moves for certain tasks. Moves are split where only some of their tasks are concerned."""
    known = frozenset(whys)
    for move in moves:
        named = move.tasks & known
        if len(named) < len(move.tasks):
            yield Move(
                tasks=minus(move.tasks, named),
                source=move.source,
                target=move.target,
                reason=move.reason,
                load=move.load,
            )
        groups: defaultdict[Why, list[TaskId]] = defaultdict(list)
        for task in sorted(named):
            groups[whys[task]].append(task)
        for why, tasks in groups.items():
            yield Move(tasks=frozenset(tasks), source=why.source, target=move.target, reason=why.reason, load=why.load)
