"""What happened in a group, made of its events: rounds, attempts, and what was stopped without need. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.kafka.records import Event, RebalanceEvent, TaskEvent, TaskState
from airflow_provider.membership.model import Epoch, TaskId, WorkerId
from airflow_provider.membership.record import GroupRecord

LOST = "lost"
"""How an attempt ended whose worker was killed: nobody could write it down."""

RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a task. Times are wall clock, milliseconds since 1970.

    :param end: finished, failed, stopped, lost, or running
    :param ended_at_ms: None while it runs; for a lost one when its worker was killed
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
    """Every start of a task's code, in the order of the starts; planners too."""
    attempts: dict[tuple[TaskId, int, int], Attempt] = {}
    for event in events:
        if not isinstance(event, TaskEvent) or event.status.started_at_ms is None:
            continue
        told = event.status
        assert told.started_at_ms is not None
        over = told.state is not TaskState.RUNNING
        attempts[told.task, told.attempt, told.started_at_ms] = Attempt(
            task=told.task,
            number=told.attempt,
            worker=told.worker,
            epoch=told.epoch,
            started_at_ms=told.started_at_ms,
            ended_at_ms=told.finished_at_ms or event.at_ms if over else None,
            end=told.state.value,
            error=told.error.message if told.error else None,
        )
    ended = (_ended_by_kill(attempt, kills) for attempt in attempts.values())
    return tuple(sorted(ended, key=lambda attempt: attempt.started_at_ms))


def _ended_by_kill(attempt: Attempt, kills: Collection[Kill]) -> Attempt:
    killed = [kill.at_ms for kill in kills if kill.worker == attempt.worker and kill.at_ms >= attempt.started_at_ms]
    if attempt.ended_at_ms is not None or not killed:
        return attempt
    return Attempt(
        task=attempt.task,
        number=attempt.number,
        worker=attempt.worker,
        epoch=attempt.epoch,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=min(killed),
        end=LOST,
    )


def stopped_unnecessarily(attempts: Iterable[Attempt], rounds: Sequence[GroupRecord]) -> list[Attempt]:
    """Attempts that were cut off although the task was not revoked from its worker and its worker was not killed."""
    return [
        attempt
        for attempt in attempts
        if attempt.end in (TaskState.STOPPED.value, RUNNING)
        and not any(attempt.task in record.revoked.get(attempt.worker, ()) for record in rounds)
    ]


def build(events: Sequence[Event], kills: Collection[Kill]) -> dict[str, Any]:
    """The part of the report that the events tell."""
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
            {"task": str(move.task), "from": move.source, "to": move.target, "why": move.reason.value}
            for move in record.moves
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
