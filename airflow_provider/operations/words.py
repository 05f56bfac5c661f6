"""What came of an operation, in a line for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_provider.operations.operations import (
    AlterJob,
    HaltJob,
    Operation,
    Outcome,
    Rebalance,
    RestartJob,
    ResumeJob,
    SetLogLevel,
    StopTasks,
)
from airflow_provider.protocol.model import TaskId

_MOST_NAMED: Final = 10


def outcome_in_words(operation: Operation, outcome: Outcome) -> str:
    """As in "job etl: 2 started anew: etl:0, etl:1; 1 tried again: etl:2"."""
    match operation:
        case HaltJob(halt=halt):
            return f"job {outcome.subject}: {halt.value}{'' if outcome.changed else ' already'}"
        case ResumeJob():
            return f"job {outcome.subject}: {'resumed' if outcome.changed else 'neither paused nor stopped'}"
        case AlterJob():
            return f"job {outcome.subject}: {'altered' if outcome.changed else 'it is so already'}"
        case SetLogLevel(level=level, worker=worker):
            where = f"in {worker}" if worker else "in all workers"
            how = "as before" if level is None else level.value
            return f"logger {outcome.subject}: {how}, {where}{'' if outcome.changed else ': it is so already'}"
        case Rebalance():
            return "the group rebalances"
        case StopTasks():
            stopped = _named(outcome.stopped)
            return f"job {outcome.subject}: {f'stopped: {stopped}' if stopped else 'stopped already'}"
        case RestartJob():
            said = (
                ("started anew", outcome.restarted),
                ("tried again", outcome.retried),
                ("run again", outcome.resumed),
                ("finished, and left alone", outcome.finished),
            )
            parts = [f"{len(tasks)} {how}: {_named(tasks)}" for how, tasks in said if tasks]
            nothing = "nothing has failed" if operation.only_failed else "nothing runs, and nothing has failed"
            return f"job {outcome.subject}: {'; '.join(parts) or nothing}"


def _named(tasks: Sequence[TaskId]) -> str:
    return ", ".join(map(str, tasks[:_MOST_NAMED])) + (", ..." if len(tasks) > _MOST_NAMED else "")
