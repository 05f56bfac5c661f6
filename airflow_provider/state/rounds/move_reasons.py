"""Explains in words why each task starts or stops: the same in logs, ``cospark replay`` and ``cospark status``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.values.model import TaskId

_STOPS: Final[Mapping[MoveReason, str]] = {
    MoveReason.DELETED: "it is no longer configured",
    MoveReason.DUPLICATE: "another worker owns it too",
    MoveReason.EAGER: "the group uses the eager protocol",
    MoveReason.LEAVING: "{source} is leaving",
    MoveReason.LEARNED: "another worker is ready for it",
}
_STARTS: Final[Mapping[MoveReason, str]] = {
    MoveReason.NEW: "nobody had it",
    MoveReason.LOST: "{source} no longer has it",
    MoveReason.RETURNED: "it had it before",
    MoveReason.DUPLICATE: "more than one worker owned it, and all have stopped it",
    MoveReason.EAGER: "the group uses the eager protocol",
    MoveReason.LEAVING: "{source} is leaving",
    MoveReason.LEARNED: "it has learned it from {source}",
    MoveReason.NOT_READY: "no learner of it is ready",
}


def one_by_one(moves: Iterable[Move]) -> Iterator[tuple[TaskId, Move]]:
    """Each task that moves, with its move, in the order of the moves."""
    return ((task, move) for move in moves for task in sorted(move.tasks))


def why(move: Move) -> str:
    """Explain why the tasks of a move start, or stop."""
    if move.reason is MoveReason.BALANCE:
        return _above_its_share(move)
    if move.reason is MoveReason.NEW and move.source is not None:
        return "its job was planned again"
    words = _STOPS if move.target is None else _STARTS
    text: str = words.get(move.reason, move.reason.value)
    return text.format(source=move.source or "its worker")


def _above_its_share(move: Move) -> str:
    has = "has" if move.target is None else "had"
    if move.load is None:  # shared out by cost, or the record of an older release
        return f"{move.source} {has} more than its share of the work"
    kind = "planner" if next(iter(move.tasks)).is_planner else "task"
    return (
        f"{move.source} {has} {move.load.has} {kind}{'' if move.load.has == 1 else 's'}, its share is {move.load.share}"
    )
