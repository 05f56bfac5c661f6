"""Who is in a group as far as its topics say, and what became of its workers when nobody is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.assignors.model import LeaveReason
from airflow_provider.leading.causes import names_in_short
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import WorkerId
from airflow_provider.records import WorkerPhase, WorkerStatus
from airflow_provider.records.times import time_in_words

_JOINS_WITHIN_MS: Final = 60_000
"""So long it is believed of a worker that it joins: it may have ended before it could."""


def present(status: StatusSnapshot) -> frozenset[WorkerId]:
    """Who was in the last round and has not said since that it has left. A worker that has crashed can't say it."""
    members, records = status.group.members if status.group else (), status.workers
    return frozenset(name for name in members if name not in records or records[name].state is not WorkerPhase.LEFT)


def stay(status: StatusSnapshot, *, wall_ms: int) -> frozenset[WorkerId]:
    """Who is in the group, and has not said that it leaves, or has said that it joins, or comes back, and may still.

    :param wall_ms: now, milliseconds since 1970
    """
    records = status.workers
    there = (name for name in present(status) if name not in records or records[name].state is not WorkerPhase.STOPPING)
    come = (name for name, said in records.items() if abs(wall_ms - said.at_ms) < _comes_within_ms(said))
    return frozenset(there).union(come)


def _comes_within_ms(said: WorkerStatus) -> int:
    """How long it is believed of who has said this that it comes; 0: it does not."""
    if said.state is WorkerPhase.JOINING:
        return _JOINS_WITHIN_MS
    if said.left is LeaveReason.RESTARTING:
        return _JOINS_WITHIN_MS if said.returns_ms is None else said.returns_ms
    return 0


def has_said_that_it_leaves(status: StatusSnapshot, worker: WorkerId, process: str) -> bool:
    """Whether others can read by now that this process of the worker leaves, or has left."""
    said = status.workers.get(worker)
    if said is None or not is_same_process(said.process, process):
        return False
    return said.state in (WorkerPhase.STOPPING, WorkerPhase.LEFT)


def is_same_process(one: str, other: str) -> bool:
    """Whether both name the same process (:attr:`~.records.WorkerStatus.process`), whatever JVM it had then."""
    return one.split("/")[:4] == other.split("/")[:4]


def stands_back(status: StatusSnapshot) -> Mapping[WorkerId, str]:
    """Who has left only until its Spark starts, and what is wrong with that."""
    return {
        name: said.condition
        for name, said in sorted(status.workers.items())
        if said.state is WorkerPhase.LEFT and said.condition
    }


def may_be_asked(status: StatusSnapshot) -> frozenset[WorkerId]:
    """Who hears a wish to leave: who is in the group, or stands back from it."""
    return present(status).union(stands_back(status))


def all_left(status: StatusSnapshot) -> bool:
    """Whether there was a round, and every member of the last one has said since that it has left."""
    return status.group is not None and bool(status.group.members) and not present(status)


def what_was(status: StatusSnapshot) -> str:
    """Who was in a group that has no member now, and how they ended.

    That nobody is there, the coordinator says, or else :func:`all_left`.
    """
    record, workers = status.group, status.workers
    if record is None:
        return "no worker has joined yet"
    heard_ms = max((workers[name].at_ms for name in record.members if name in workers), default=record.at_ms)
    lost = sorted(present(status))
    if not lost:
        return f"all workers have left, the last one at {time_in_words(heard_ms)}, epoch {record.epoch}{_back(status)}"
    left = len(record.members) - len(lost)
    others = f", {left} {'has' if left == 1 else 'have'} left in order" if left else ""
    return (
        f"no worker is there: {names_in_short(lost)} got lost{others}; last heard of at {time_in_words(heard_ms)},"
        f" epoch {record.epoch}"
    )


def _back(status: StatusSnapshot) -> str:
    """Who has left only until it can run something, and what keeps one of them from it."""
    back = stands_back(status)
    if not back:
        return ""
    verb = "stands" if len(back) == 1 else "stand"
    return f"; {names_in_short(list(back))} {verb} back: {next(iter(back.values()))}"
