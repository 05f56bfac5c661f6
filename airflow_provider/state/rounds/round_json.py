"""The values of a round as JSON: tasks by worker, moves, and what a leader remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from airflow_provider.assignment.learners.model import LearnerMemory
from airflow_provider.assignment.model import Load, Memory, Move, MoveReason
from airflow_provider.assignment.shares import Shares, all_of
from airflow_provider.values.model import (
    HIGHEST_INDEX,
    LARGEST_NUMBER,
    NO_GENERATION,
    ReadTasks,
    TaskId,
    WorkerId,
    WriteTasks,
    name_from_json,
    tasks_from_json,
    tasks_to_json,
    whole_from_json,
)

T = TypeVar("T")


def workers_from_json(names: Iterable[object]) -> list[WorkerId]:
    """:raises TypeError, ValueError: for anything else than names of workers"""
    return [WorkerId(name_from_json(name)) for name in names]


def by_worker_from_json(data: Mapping[str, Any], read: Callable[[Any], T]) -> dict[WorkerId, T]:
    """What each worker has, such as tasks.

    :raises AttributeError, TypeError, ValueError: for anything else
    """
    return {WorkerId(name_from_json(worker)): read(value) for worker, value in data.items()}


def shares_to_json(shares: Shares, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
    """Tasks by worker, which :func:`by_worker_from_json` reads."""
    return {worker: write(tasks) for worker, tasks in shares.items()}


def moves_to_json(moves: Iterable[Move], write: WriteTasks = tasks_to_json) -> list[dict[str, Any]]:
    return [
        {
            "tasks": write(move.tasks),
            "source": move.source,
            "target": move.target,
            "reason": move.reason.value,
            **({"load": list(move.load)} if move.load else {}),
        }
        for move in moves
    ]


def moves_from_json(data: Iterable[Mapping[str, Any]], read: ReadTasks = tasks_from_json) -> tuple[Move, ...]:
    """The inverse of :func:`moves_to_json`.

    :raises KeyError, TypeError, ValueError: for anything else
    """
    return tuple(
        Move(
            tasks=read(move["tasks"]),
            source=_worker_from_json(move["source"]),
            target=_worker_from_json(move["target"]),
            reason=MoveReason(move["reason"]),
            load=_load_from_json(move.get("load")),
        )
        for move in data
    )


def _worker_from_json(data: object) -> WorkerId | None:
    return None if data is None else WorkerId(name_from_json(data))


def _load_from_json(data: Any) -> Load | None:
    if data is None:
        return None
    has, share = (whole_from_json(number, "a load", most=HIGHEST_INDEX) for number in data)
    return Load(has, share)


class _Form(NamedTuple):
    """How the values of a field of :class:`Memory` are written and read."""

    write: Callable[[Any, WriteTasks], Any]
    read: Callable[[Any, ReadTasks], Any]


def _whole(what: str, least: int = 0, most: int = LARGEST_NUMBER) -> _Form:
    return _Form(lambda number, _: number, lambda data, _: whole_from_json(data, what, least=least, most=most))


_DEADLINE: Final = partial(whole_from_json, what="a deadline")
_SHARES: Final = _Form(shares_to_json, by_worker_from_json)
_FORMS: Final = {
    "generation": _whole("a generation", least=NO_GENERATION, most=HIGHEST_INDEX),
    "assignment": _SHARES,
    "revoked": _Form(lambda tasks, write: write(tasks), lambda data, read: read(data)),
    "members": _Form(lambda workers, _: sorted(workers), lambda data, _: frozenset(workers_from_json(data))),
    "candidates": _Form(lambda workers, _: list(workers), lambda data, _: tuple(workers_from_json(data))),
    "deadline_ms": _whole("a deadline"),
    "revoked_in_previous": _Form(lambda revoked, _: revoked, lambda data, _: bool(data)),
    "successive_revocations": _whole("a number of rounds"),
    "next_moves_at_ms": _whole("a time"),
    "released": _Form(moves_to_json, moves_from_json),
    "awaited": _Form(lambda awaited, _: dict(awaited), lambda data, _: by_worker_from_json(data, _DEADLINE)),
    "former": _SHARES,
}
_ADDED: Final = frozenset({"next_moves_at_ms", "released", "awaited", "former"})
"""What a memory of an older release may lack."""


def memory_to_json(memory: Memory, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
    return {name: form.write(getattr(memory, name), write) for name, form in _FORMS.items()}


def memory_from_json(data: Mapping[str, Any], read: ReadTasks = tasks_from_json) -> Memory:
    """The inverse of :func:`memory_to_json`.

    :raises AttributeError, KeyError, TypeError, ValueError: for anything else
    """
    there = ((name, form) for name, form in _FORMS.items() if name not in _ADDED or name in data)
    return Memory(**{name: form.read(data[name], read) for name, form in there})


def learner_memory_to_json(memory: LearnerMemory, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
    """Without ``cooperative``, which is stored beside it."""
    return {
        "learned": shares_to_json(memory.learned, write),
        "learned_before": shares_to_json(memory.learned_before, write),
        "since_ms": {
            worker: [[*task, since_ms] for task, since_ms in sorted(lessons.items())]
            for worker, lessons in memory.since_ms.items()
        },
        "given_up": write(all_of(memory.given_up)),  # for an older release
        "given_up_by": shares_to_json(memory.given_up, write),
    }


def learner_memory_from_json(data: Mapping[str, Any], memory: Memory, read: ReadTasks) -> LearnerMemory:
    """The inverse of :func:`learner_memory_to_json`.

    :raises AttributeError, KeyError, TypeError, ValueError: for anything else
    """
    return LearnerMemory(
        cooperative=memory,
        learned=by_worker_from_json(data["learned"], read),
        learned_before=by_worker_from_json(data["learned_before"], read),
        since_ms=by_worker_from_json(data["since_ms"], lambda lessons: dict(map(_lesson_from_json, lessons))),
        given_up=by_worker_from_json(data.get("given_up_by", {}), read),
    )


def _lesson_from_json(lesson: Any) -> tuple[TaskId, int]:
    job, index, since_ms = lesson
    (task,) = tasks_from_json([[job, index]])
    return task, whole_from_json(since_ms, "a time")
