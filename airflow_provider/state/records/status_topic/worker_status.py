"""The record of a worker in the status topic: what it has, and how it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, NamedTuple

import msgspec

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.assignment.policy import LONGEST_DELAY_MS
from airflow_provider.state.records.envelope import COUNT, SCHEMA_VERSION, TEXT, convert
from airflow_provider.state.records.status_topic.awaited import Awaited, awaited_in
from airflow_provider.values.model import (
    HIGHEST_INDEX,
    UNKNOWN_MEMBER_ID,
    Epoch,
    MemberId,
    TaskId,
    Tasks,
    WorkerId,
    tasks_to_json,
)


class WorkerPhase(str, Enum):
    """What a worker is doing."""

    JOINING = "joining"
    """Started; has no assignment yet."""
    STABLE = "stable"
    """Has applied the assignment of ``epoch``, in its task's process."""
    DEFERRED = "deferred"
    """Has applied the assignment of ``epoch``; the triggerer holds its membership."""
    STOPPING = "stopping"
    """Stops what it runs, and will leave."""
    LEFT = "left"
    """Has left the group, or was never let in."""

    @property
    def applied(self) -> bool:
        """Whether the epoch in the record is one that the worker has applied."""
        return self in (WorkerPhase.STABLE, WorkerPhase.DEFERRED)


class Lesson(NamedTuple):
    """A task that a worker learns, while another has it.

    :param progress: from 0 to 1
    :param ready: whether it may move here now
    """

    task: TaskId
    progress: Annotated[float, msgspec.Meta(ge=0, le=1)]
    ready: bool


class FailedWarmUp(NamedTuple):
    """A task that a worker could not make ready, and why."""

    task: TaskId
    error: Annotated[str, TEXT]


class WarmUpDeaths(NamedTuple):
    """How often this worker's process has ended while it warmed up a task."""

    task: TaskId
    times: Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The last statement of a worker about itself.

    :param epoch: of the last assignment that it has applied. Before the first one, that of the newest group record it
        has read (0 without one), so that the record does not count as stale
    :param slots: how many tasks it runs at the same time; 0 once it drains
    :param owned: the tasks that it is assigned
    :param running: those of them that run now
    :param process: the process that holds the membership, in a form by which a successor can tell that it has ended
    :param at_ms: wall clock, milliseconds since 1970
    :param member_id: its own in the group, as far as it knows; empty before that, and while the membership goes from a
        task's process to a triggerer
    :param left: why it leaves, or has left, in an orderly way; written before it tells the coordinator
    :param returns_ms: how long it would take at most to return if this process ended; 0: it never would; None: unknown
    :param condition: what keeps its tasks from running, or the worker from taking any; mostly empty
    :param awaits: for what of Airflow it waits since its membership was handed over; the condition says it in words
    :param learning: the tasks that it learns; here, because the records of those tasks are their owners'
    :param leaves_soon: it was asked to leave when its batch tasks have finished and others have learned the rest. It
        goes on until then, unless it drains because nothing is learned in its group
    :param failed_warm_ups: why it has stopped learning some tasks, until something else happens to these there
    :param warm_up_deaths: for the next process under this name, until something else happens to these tasks there
    :param spark_ui: the address of its Spark UI, as Spark reports it; empty: the UI is off
    :param allowed: import prefixes of the code that it may import as jobs; None: it has not said
    :param time_zone: of the sessions of its tasks; empty: it has not said
    :param python_time_zone: of the process that runs its tasks; empty: it has not said
    :param reads: the highest version of records that its membership reads
    """

    worker: Annotated[WorkerId, TEXT]
    state: WorkerPhase
    epoch: Annotated[Epoch, COUNT]
    slots: Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_INDEX)]
    url: Annotated[str, TEXT] = ""
    owned: Tasks = frozenset()
    running: Tasks = frozenset()
    process: Annotated[str, TEXT] = ""
    at_ms: Annotated[int, COUNT] = 0
    member_id: Annotated[MemberId, TEXT] = UNKNOWN_MEMBER_ID
    left: LeaveReason | None = None
    returns_ms: Annotated[int, COUNT] | None = None
    condition: Annotated[str, TEXT] = ""
    awaits: Awaited | None = None
    learning: tuple[Lesson, ...] = ()
    leaves_soon: bool = False
    failed_warm_ups: tuple[FailedWarmUp, ...] = ()
    warm_up_deaths: tuple[WarmUpDeaths, ...] = ()
    spark_ui: Annotated[str, TEXT] = ""
    allowed: tuple[Annotated[str, TEXT], ...] | None = None
    time_zone: Annotated[str, TEXT] = ""
    python_time_zone: Annotated[str, TEXT] = ""
    reads: Annotated[int, COUNT] = SCHEMA_VERSION

    @property
    def drains(self) -> bool:
        """Whether it starts nothing more, and leaves when its running tasks have finished."""
        return self.slots == 0

    def is_stale(self, known: WorkerStatus) -> bool:
        """Whether this, read after ``known``, must not replace it."""
        return self.epoch < known.epoch

    def to_json(self) -> dict[str, Any]:
        return {
            "worker": self.worker,
            "state": self.state.value,
            "epoch": self.epoch,
            "slots": self.slots,
            "url": self.url,
            "owned": tasks_to_json(self.owned),
            "running": tasks_to_json(self.running),
            "process": self.process,
            "at_ms": self.at_ms,
            "member_id": self.member_id,
            "left": self.left.value if self.left else None,
            "returns_ms": self.returns_ms,
            "condition": self.condition,
            "learning": [[list(lesson.task), lesson.progress, lesson.ready] for lesson in self.learning],
            "leaves_soon": self.leaves_soon,
            "failed_warm_ups": [[list(failed.task), failed.error] for failed in self.failed_warm_ups],
            "warm_up_deaths": [[list(died.task), died.times] for died in self.warm_up_deaths],
            "spark_ui": self.spark_ui,
            **({} if self.allowed is None else {"allowed": list(self.allowed)}),
            **({"time_zone": self.time_zone} if self.time_zone else {}),
            **({"python_time_zone": self.python_time_zone} if self.python_time_zone else {}),
            **({"awaits": self.awaits.value} if self.awaits else {}),
            **({} if self.reads == SCHEMA_VERSION else {"reads": self.reads}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerStatus:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        status = convert(data, cls)
        if status.awaits is None and (awaits := awaited_in(status.condition)) is not None:
            status = replace(status, awaits=awaits)
        if status.returns_ms is None or status.returns_ms <= LONGEST_DELAY_MS:
            return status
        # A leader computes a deadline from it, for which nothing is longer than the longest delay.
        return replace(status, returns_ms=LONGEST_DELAY_MS)
