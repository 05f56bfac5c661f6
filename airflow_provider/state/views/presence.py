"""The workers that are in a group according to its topics, and how the last ones ended if there is none. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.state.records import TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.records.times import time_in_words
from airflow_provider.state.rounds.causes import names_in_short
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId

_JOINS_WITHIN_MS: Final = 60_000
"""How long a worker counts as joining: it may have ended before it could."""


def present(status: StatusSnapshot) -> frozenset[WorkerId]:
    """The members of the last round that have not written since that they left. A crashed worker can't write this: it
    counts until the next round, or until the coordinator is asked, which only knows it of the last workers.
    """
    return frozenset() if status.deserted else _unparted(status)


def lost(status: StatusSnapshot) -> frozenset[WorkerId]:
    """The last members of a group that has none now, if they have not written that they left."""
    return _unparted(status) if status.deserted else frozenset()


def is_watched(last: TaskStatus, status: StatusSnapshot, there: Container[WorkerId]) -> bool:
    """Whether a worker of the group has the task of this record, or is to have it. Without a round nobody can tell: the
    leader may be one of Java's, which writes no record.

    :param there: the result of :func:`present`
    """
    if status.group is None and not status.deserted:
        return True
    return last.worker in there or status.owner_of(last.task) in there


def _unparted(status: StatusSnapshot) -> frozenset[WorkerId]:
    members, records = status.group.members if status.group else (), status.workers

    def look() -> frozenset[WorkerId]:
        return frozenset(name for name in members if name not in records or records[name].state is not WorkerPhase.LEFT)

    return status.unparted.get(records, look)


def stay(status: StatusSnapshot, *, wall_ms: int) -> frozenset[WorkerId]:
    """The workers that stay: members that do not leave, and workers that are joining or may still come back.

    :param wall_ms: now, milliseconds since 1970
    """
    records = status.workers
    there = (name for name in present(status) if name not in records or records[name].state is not WorkerPhase.STOPPING)
    come = (name for name, said in records.items() if abs(wall_ms - said.at_ms) < _comes_within_ms(said))
    return frozenset(there).union(come)


def _comes_within_ms(said: WorkerStatus) -> int:
    """How long a worker that has written this is expected to come; 0: it is not expected."""
    if said.state is WorkerPhase.JOINING:
        return _JOINS_WITHIN_MS
    if said.left is LeaveReason.RESTARTING:
        return _JOINS_WITHIN_MS if said.returns_ms is None else said.returns_ms
    return 0


def has_said_that_it_leaves(status: StatusSnapshot, worker: WorkerId, process: str) -> bool:
    """Whether the topic says that this process of the worker leaves or has left, so that others can read it."""
    said = status.workers.get(worker)
    if said is None or not is_same_process(said.process, process):
        return False
    return said.state in (WorkerPhase.STOPPING, WorkerPhase.LEFT)


def is_same_process(one: str, other: str) -> bool:
    """Whether both name the same process (:attr:`.WorkerStatus.process`), with whatever JVM."""
    return one.split("/")[:4] == other.split("/")[:4]


def stands_back(status: StatusSnapshot) -> Mapping[WorkerId, str]:
    """The workers that stand back until they can run tasks, and why they can't."""
    return {
        name: said.condition
        for name, said in sorted(status.workers.items())
        if said.state is WorkerPhase.LEFT and said.condition
    }


def may_be_asked(status: StatusSnapshot) -> frozenset[WorkerId]:
    """The workers that can be asked to leave: those in the group, and those that stand back from it."""
    return present(status).union(stands_back(status))


def is_empty(status: StatusSnapshot) -> bool:
    """Whether there was a round, and none of its members is left."""
    return status.group is not None and bool(status.group.members) and not present(status)


def nobody(status: StatusSnapshot) -> str:
    """Why the group has no workers, according to its topics, and to its coordinator if that was asked; empty: it has
    some.
    """
    return what_was(status) if not status.peopled and (status.group is None or is_empty(status)) else ""


def what_was(status: StatusSnapshot) -> str:
    """The last workers of a group that has no members now, and how they ended.

    Whether it has none is known from the coordinator or from :func:`is_empty`.
    """
    record = status.group
    if record is None:
        return "no worker has joined yet"
    heard_ms = max(_heard_ms(record.members, status), default=record.at_ms)
    gone = sorted(_unparted(status))
    if not gone:
        return f"all workers have left, the last one at {time_in_words(heard_ms)}, epoch {record.epoch}{_back(status)}"
    left = len(record.members) - len(gone)
    others = f", {left} {'has' if left == 1 else 'have'} left in order" if left else ""
    return (
        f"no worker is there: {names_in_short(gone)} got lost{others}; last heard of at {time_in_words(heard_ms)},"
        f" epoch {record.epoch}"
    )


def _heard_ms(members: Container[WorkerId], status: StatusSnapshot) -> Iterator[int]:
    """When these have written something, of themselves or of their tasks."""
    yield from (said.at_ms for name, said in status.workers.items() if name in members)
    yield from (last.heard_ms for last in status.tasks.values() if last.worker in members)


def _back(status: StatusSnapshot) -> str:
    """The workers that will come back by themselves, and the reason of one of them."""
    back = stands_back(status)
    if not back:
        return ""
    verb = "stands" if len(back) == 1 else "stand"
    return f"; {names_in_short(list(back))} {verb} back: {next(iter(back.values()))}"
