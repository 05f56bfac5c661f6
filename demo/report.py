"""What has happened in a group, computed from its events: rounds, attempts, unnecessary stops. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.state.records import Event, RebalanceEvent, TaskEvent, TaskFailure, TaskState, TaskStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.move_reasons import one_by_one
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

LOST = "lost"
"""The end of an attempt whose worker was killed, so that nobody could record it."""

RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a task. Times are wall clock, milliseconds since 1970.

    :param epoch: in which it was started
    :param end: finished, failed, stopped, lost, or running
    :param ended_at_ms: None while it runs; for a lost one the time when its worker was killed
    """

    task: TaskId
    number: int
    worker: WorkerId
    epoch: Epoch
    started_at_ms: int
    ended_at_ms: int | None = None
    end: str = RUNNING
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A worker whose process was killed from outside (wall clock, milliseconds since 1970)."""

    worker: WorkerId
    at_ms: int


def rounds_of(events: Iterable[Event]) -> tuple[GroupRecord, ...]:
    return tuple(event.record for event in events if isinstance(event, RebalanceEvent))


def attempts_of(events: Iterable[Event], kills: Collection[Kill]) -> tuple[Attempt, ...]:
    """Each start of a task's code, including planners, in their order."""
    attempts: list[Attempt] = []
    running: dict[TaskId, TaskStatus] = {}
    for event in events:
        if not isinstance(event, TaskEvent):
            continue
        told = event.status
        before = running.get(told.task)
        if before is not None and told.started_at_ms != before.started_at_ms:
            del running[told.task]
            attempts.append(_ended_without_a_word(before, event, kills))
        if told.state is TaskState.RUNNING:
            running[told.task] = told
        elif told.started_at_ms is not None:
            began = running.pop(told.task, told)
            attempts.append(
                _attempt(replaced(told, epoch=began.epoch), told.finished_at_ms or event.at_ms, told.state.value)
            )
    attempts += [_still_running(told, kills) for told in running.values()]
    return tuple(sorted(attempts, key=lambda attempt: attempt.started_at_ms))


def _attempt(told: TaskStatus, ended_at_ms: int | None, end: str, error: TaskFailure | None = None) -> Attempt:
    assert told.started_at_ms is not None
    why = error or (told.error if end == TaskState.FAILED.value else None)
    return Attempt(
        task=told.task,
        number=told.attempt,
        worker=told.worker,
        epoch=told.epoch,
        started_at_ms=told.started_at_ms,
        ended_at_ms=ended_at_ms,
        end=end,
        error=why.message if why else None,
    )


def _ended_without_a_word(before: TaskStatus, event: TaskEvent, kills: Collection[Kill]) -> Attempt:
    """The attempt of a task whose next event is about another state: it failed and will be tried again, a planner has
    planned and waits to plan again, or its worker was lost.
    """
    told = event.status
    killed_at_ms = _killed_at_ms(before, kills)
    if told.failures > before.failures:
        return _attempt(before, event.at_ms, TaskState.FAILED.value, told.error)
    if told.worker == before.worker and before.task.is_planner and killed_at_ms is None:
        return _attempt(before, event.at_ms, TaskState.FINISHED.value)
    return _attempt(before, killed_at_ms or event.at_ms, LOST)


def _still_running(told: TaskStatus, kills: Collection[Kill]) -> Attempt:
    killed_at_ms = _killed_at_ms(told, kills)
    return _attempt(told, killed_at_ms, RUNNING if killed_at_ms is None else LOST)


def _killed_at_ms(told: TaskStatus, kills: Collection[Kill]) -> int | None:
    """When the attempt's worker was killed during it."""
    began = told.started_at_ms or 0
    return min((kill.at_ms for kill in kills if kill.worker == told.worker and kill.at_ms >= began), default=None)


def stopped_unnecessarily(attempts: Iterable[Attempt], rounds: Sequence[GroupRecord]) -> list[Attempt]:
    """Attempts that were stopped, although the task was not revoked and its worker was not lost."""
    return [
        attempt
        for attempt in attempts
        if attempt.end in (TaskState.STOPPED.value, RUNNING) and not _is_revoked(attempt, rounds)
    ]


def _is_revoked(attempt: Attempt, rounds: Iterable[GroupRecord]) -> bool:
    """Whether a round after the start has taken the task from its worker; earlier rounds don't count."""
    return any(
        record.epoch >= attempt.epoch and attempt.task in record.revoked.get(attempt.worker, ()) for record in rounds
    )


def build(events: Sequence[Event], kills: Collection[Kill]) -> dict[str, Any]:
    """The part of the report that comes from the events."""
    rounds, attempts = rounds_of(events), attempts_of(events, kills)
    unneeded = stopped_unnecessarily(attempts, rounds)
    tasks = sorted({attempt.task for attempt in attempts if not attempt.task.is_planner})
    return {
        "epochs": [_round_as_json(record) for record in rounds],
        "tasks": {
            str(task): [_attempt_as_json(attempt) for attempt in attempts if attempt.task == task] for task in tasks
        },
        "killed": [{"worker": kill.worker, "at_ms": kill.at_ms} for kill in kills],
        "moved": sum(len(tasks) for record in rounds for tasks in record.revoked.values()),
        "stopped": sum(attempt.end == TaskState.STOPPED.value for attempt in attempts),
        "lost": sum(attempt.end == LOST for attempt in attempts),
        "stopped_unnecessarily": len(unneeded),
        "stopped_unnecessarily_which": [_attempt_as_json(attempt) for attempt in unneeded],
    }


def _round_as_json(record: GroupRecord) -> dict[str, Any]:
    return {
        "epoch": record.epoch,
        "at_ms": record.at_ms,
        "reason": record.reason,
        "leader": record.leader,
        "delay_ms": record.delay_ms,
        "members": {worker: [str(task) for task in sorted(tasks)] for worker, tasks in record.assignment.items()},
        "revoked": {worker: [str(task) for task in sorted(tasks)] for worker, tasks in record.revoked.items() if tasks},
        "moves": [
            {"task": str(task), "from": move.source, "to": move.target, "why": move.reason.value}
            for task, move in one_by_one(record.moves)
        ],
    }


def _attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "task": str(attempt.task),
        "attempt": attempt.number,
        "worker": attempt.worker,
        "epoch": attempt.epoch,
        "started_at_ms": attempt.started_at_ms,
        "ended_at_ms": attempt.ended_at_ms,
        "end": attempt.end,
        "error": attempt.error,
    }
