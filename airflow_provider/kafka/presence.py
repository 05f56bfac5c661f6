"""What became of the workers of a group that nobody is in any more, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Final

from airflow_provider.kafka.records import WorkerPhase, WorkerStatus
from airflow_provider.membership.model import WorkerId
from airflow_provider.membership.record import GroupRecord

_MOST_NAMED: Final = 3


def all_left(record: GroupRecord, workers: Mapping[WorkerId, WorkerStatus]) -> bool:
    """Whether every member of the last round has said since that it has left."""
    return bool(record.members) and not _lost(record, workers)


def what_was(record: GroupRecord | None, workers: Mapping[WorkerId, WorkerStatus]) -> str:
    """Who was in a group that has no member now, and how they ended.

    That nobody is there, the coordinator says, or else :func:`all_left`: who has crashed can't say it.
    """
    if record is None:
        return "no worker has joined yet"
    heard_ms = max((workers[name].at_ms for name in record.members if name in workers), default=record.at_ms)
    lost = _lost(record, workers)
    if not lost:
        stand_back = _standing_back(record, workers)
        return f"all workers have left, the last one at {at(heard_ms)}, epoch {record.epoch}{stand_back}"
    left = len(record.members) - len(lost)
    others = f", {left} {'has' if left == 1 else 'have'} left in order" if left else ""
    return (
        f"all workers are gone: {_names(lost)} got lost{others}; last heard of at {at(heard_ms)}, epoch {record.epoch}"
    )


def _standing_back(record: GroupRecord, workers: Mapping[WorkerId, WorkerStatus]) -> str:
    """Who has left only until it can run something, and what keeps one of them from it."""
    names = sorted(name for name in record.members if workers[name].condition)
    if not names:
        return ""
    return f"; {_names(names)} {'stands' if len(names) == 1 else 'stand'} back: {workers[names[0]].condition}"


def at(wall_ms: int) -> str:
    """A time, to the second.

    :param wall_ms: milliseconds since 1970
    """
    return f"{datetime.fromtimestamp(wall_ms // 1000, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _lost(record: GroupRecord, workers: Mapping[WorkerId, WorkerStatus]) -> list[WorkerId]:
    """Who was in the last round and has not said that it has left."""
    return sorted(name for name in record.members if name not in workers or workers[name].state is not WorkerPhase.LEFT)


def _names(workers: Sequence[WorkerId]) -> str:
    others = len(workers) - _MOST_NAMED
    return ", ".join(workers) if others <= 1 else f"{', '.join(workers[:_MOST_NAMED])} and {others} others"
