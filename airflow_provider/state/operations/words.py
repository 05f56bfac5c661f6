"""The outcome of an operation in one line, for a terminal, a log or the page."""

from __future__ import annotations

from typing import Final

from airflow_provider.state.operations.operations import (
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
from airflow_provider.values.in_short import in_short

_MOST_NAMED: Final = 10


def outcome_in_words(operation: Operation, outcome: Outcome) -> str:
    """As in "job etl: 2 restarted: etl:0, etl:1; 1 tried again: etl:2", with its notes behind it."""
    return "; ".join((_in_words(operation, outcome), *outcome.notes))


def _in_words(operation: Operation, outcome: Outcome) -> str:
    match operation:
        case HaltJob(halt=halt):
            return f"job {outcome.subject}: {halt.value}{'' if outcome.changed else ' already'}"
        case ResumeJob():
            return f"job {outcome.subject}: {'resumed' if outcome.changed else 'neither paused nor stopped'}"
        case AlterJob():
            return f"job {outcome.subject}: {'altered' if outcome.changed else 'nothing changed'}"
        case SetLogLevel(level=level, worker=worker):
            where = f"in {worker}" if worker else "in all workers"
            how = "reset" if level is None else level.value
            return f"logger {outcome.subject}: {how}, {where}{'' if outcome.changed else ': nothing changed'}"
        case Rebalance():
            return "the group is asked to rebalance"
        case StopTasks():
            stopped = in_short(outcome.stopped, most=_MOST_NAMED)
            return f"job {outcome.subject}: {f'stopped: {stopped}' if stopped else 'stopped already'}"
        case RestartJob():
            said = (
                ("restarted", outcome.restarted),
                ("tried again", outcome.retried),
                ("resumed", outcome.resumed),
                ("finished before", outcome.finished),
            )
            parts = [f"{len(tasks)} {how}: {in_short(tasks, most=_MOST_NAMED)}" for how, tasks in said if tasks]
            nothing = "nothing has failed" if operation.only_failed else "nothing runs, and nothing has failed"
            return f"job {outcome.subject}: {'; '.join(parts) or nothing}"
