"""Decides what is written when a user sets the level of a logger, given what is in the topics."""

from __future__ import annotations

from airflow_provider.state.operations.decision import Asked, Decision
from airflow_provider.state.operations.operations import OperationError, Outcome, SetLogLevel
from airflow_provider.state.records import ALL_WORKERS, LevelsRecord, LogLevel, levels_key
from airflow_provider.state.records.jobs_topic.log_levels import MOST_LOGGERS, is_logger, is_within
from airflow_provider.state.views.presence import may_be_asked
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import WorkerId

_MOST_NAMED = 10


def decide_level(operation: SetLogLevel, asked: Asked) -> Decision:
    """Decide which records are written; see :func:`~airflow_provider.state.operations.deciding.decide`."""
    logger, worker = operation.logger, operation.worker or ALL_WORKERS
    if not is_logger(logger):
        raise OperationError(f"logger {logger!r}: give its name as in logging.getLogger(...), not the root's")
    known = asked.jobs.levels.get(worker)
    before: dict[str, LogLevel] = {} if known is None else dict(known.levels)
    after = {name: level for name, level in before.items() if name != logger}
    if operation.level is not None:
        after[logger] = operation.level
    if after == before:
        return Decision(outcome=Outcome(subject=logger, changed=False))
    if len(after) > MOST_LOGGERS:
        raise OperationError(
            f"logger {logger!r}: {MOST_LOGGERS} others have a level already; reset some, or set a parent's"
        )
    if operation.level is not None:
        _check_that_somebody_sets_it(logger, operation.worker, asked.status)
    record = LevelsRecord(worker=worker, levels=after, by=asked.by, at_ms=asked.at_ms)
    level = "reset" if operation.level is None else operation.level.value
    return Decision(
        outcome=Outcome(subject=logger, changed=True),
        about=levels_key(worker),
        jobs={levels_key(worker): record.to_json() if after else None},
        event=asked.event("set level", logger, f"{level}, in {operation.worker or 'all workers'}"),
    )


def _check_that_somebody_sets_it(logger: str, worker: WorkerId | None, status: StatusSnapshot) -> None:
    """Check that some worker would set the level. Workers that join later do, too, so without workers nobody knows.

    :raises OperationError: if none would
    """
    there = sorted(may_be_asked(status))
    if worker is not None and there and worker not in there and worker not in status.workers:
        raise OperationError(f"the group has no worker {worker!r}; it has {in_short(there, most=_MOST_NAMED)}")
    asked = there if worker is None else [worker]
    said = [record.allowed for name in asked if (record := status.workers.get(name)) is not None]
    known = {prefix for allowed in said if allowed is not None for prefix in allowed}
    if said and None not in said and not is_within(logger, known):
        whose = "no worker of the group may" if worker is None else f"worker {worker} may not"
        may = f"in {in_short(sorted(known), most=_MOST_NAMED)}, or below" if known else "none: no job code is allowed"
        raise OperationError(
            f"logger {logger!r} can't be set: {whose} import such code as jobs. Loggers that may be set"
            f" (allowed_entry_points): {may}"
        )
