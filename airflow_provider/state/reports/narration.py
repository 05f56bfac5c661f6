"""A rebalance in words, for the log of a task. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.move_reasons import one_by_one, why
from airflow_provider.values.in_short import in_short
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import TaskId, WorkerId

Label: TypeAlias = Callable[[TaskId], str]
Outlives: TypeAlias = Callable[[TaskId], bool]

_MOST_MOVES: Final = 20
_MOST_NAMES: Final = 20
_LONGEST_REASON: Final = 500

_MEMBERS: Final[Memo[GroupRecord, str]] = Memo()
"""The members' names in words: each of a thousand members logs the same."""


def ends_with_its_worker(task: TaskId) -> bool:  # noqa: ARG001
    """An :data:`Outlives` for tasks that are all attached."""
    return False


def epoch_in_words(
    record: GroupRecord, me: WorkerId, label: Label = str, outlives: Outlives = ends_with_its_worker
) -> Iterator[str]:
    """Describe a rebalance: the group, each task that moves, and what the worker ``me`` has.

    :param label: how to show a task
    :param outlives: whether a task keeps running without its worker, so does not stop when it moves
    """
    led = "led by this worker" if record.leader == me else f"led by {record.leader}"
    workers = "worker" if len(record.members) == 1 else "workers"
    members = _MEMBERS.get(record, lambda: names_in_words(sorted(record.members)))
    counted = ", ".join(f"{name} {number}" for name, number in record.round_id.items())
    yield (
        f"Epoch {record.epoch} ({counted}), {led}, with {len(record.members)} {workers}:"
        f" {members}{f' ({_cut(record.because)})' if record.because else ''}"
    )
    for task, move in islice(one_by_one(record.moves), _MOST_MOVES):
        yield f"  {move_in_words(task, move, label, outlives)}"
    moved = sum(len(move.tasks) for move in record.moves)
    if moved > _MOST_MOVES:
        yield f"  ... and {moved - _MOST_MOVES} moves more"
    yield from _lessons(record, label)
    if record.delay_ms:
        who = "Lost tasks wait for their worker" if record.waiting else "The next moves wait"
        yield f"  {who} for {record.delay_ms / 1000:g} s"
    yield f"  This worker has {tasks_in_words(record.owned_by(me), label)}"
    if learning := record.learning.get(me):
        yield f"  It learns {tasks_in_words(learning, label)}"
    if learned := record.learned.get(me):
        yield f"  Others learn {tasks_in_words(learned, label)} of it"
    for worker, in_vain in record.given_up.items():
        yield f"  {worker} could not make ready {tasks_in_words(in_vain, label)}: left where it is"


def _lessons(record: GroupRecord, label: Label) -> Iterator[str]:
    """The lessons that begin with this round. The reasons are worded like those of tasks that stop, since their owners
    still have them.
    """
    for task, lesson in islice(one_by_one(record.lessons), _MOST_MOVES):
        whose = f" of {lesson.source}" if lesson.source else ""
        yield f"  {lesson.target} learns {label(task)}{whose}: {why(replace(lesson, target=None))}"
    new = sum(len(lesson.tasks) for lesson in record.lessons)
    if new > _MOST_MOVES:
        yield f"  ... and {new - _MOST_MOVES} more are learned"


def move_in_words(task: TaskId, move: Move, label: Label = str, outlives: Outlives = ends_with_its_worker) -> str:
    it = label(task)
    if move.target is None and move.reason is not MoveReason.DELETED and outlives(task):
        return f"{it} leaves {move.source}, and keeps running: {why(move)}"
    if move.target is None:
        return f"{it} stops on {move.source}: {why(move)}"
    if move.source is None or move.source == move.target:
        return f"{it} starts on {move.target}: {why(move)}"
    return f"{it} moves from {move.source} to {move.target}: {why(move)}"


def tasks_in_words(tasks: Iterable[TaskId], label: Label = str) -> str:
    """Tasks by name, shortened if there are very many."""
    ordered = sorted(tasks)
    return names_in_words([label(task) for task in ordered[:_MOST_NAMES]], of=len(ordered)) or "no task"


def names_in_words(names: Sequence[str], *, of: int | None = None) -> str:
    """Names, shortened: a group may have thousands of workers and tasks, and each worker writes them into its own log.

    :param of: how many there are in all, if ``names`` are only the first of them
    """
    return in_short(names, of=of, most=_MOST_NAMES)


def _cut(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
