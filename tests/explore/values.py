"""What a world of the exploration is made of: values that can be compared and hashed, and nothing else.

Time. There is no clock: it is always ``NOW``, and every time in a world counts from there. When time passes, all of
them come nearer. So worlds that differ only in when they happen are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from airflow_provider.assignors.model import Memory
from airflow_provider.assignors.policy import Deferred, Policy
from airflow_provider.membership.events import AssignmentComputed, SendJoin, SendSync
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.membership.state import MemberState
from airflow_provider.protocol.model import (
    NO_TASKS,
    ConfigOffset,
    ConnectProtocol,
    Epoch,
    MemberId,
    TaskId,
    Tasks,
    WorkerId,
)

T = TypeVar("T")

TICK = 100
"""Time passes in steps of so many milliseconds; what is due between two steps happens at the second."""
NOW = 10_000_000
"""The time, by every clock: milliseconds, and far from 0, which some fields take for "none"."""
OFFSET = ConfigOffset(1)
"""All that is configured has been read by everybody, from the beginning."""

SETTINGS = MemberSettings(
    group_id="g",
    worker=WorkerId("template"),
    protocol=ConnectProtocol.COMPATIBLE,
    session_timeout_ms=4 * TICK,
    heartbeat_interval_ms=TICK,
    fast_heartbeat_ms=TICK,
    rebalance_timeout_ms=6 * TICK,
    lease_margin_ms=TICK,
    retry_backoff_ms=80,
    retry_backoff_max_ms=80,
)
"""A heartbeat in each step, two may be lost; and who tries again does so in the next step."""
DELAYED = Deferred(max_delay_ms=5 * TICK)
REQUEST_TIMEOUT_MS = 2 * TICK
HEARTBEAT_TIMEOUT_MS = SETTINGS.session_timeout_ms - SETTINGS.lease_margin_ms
ROUND_TIMEOUT_MS = SETTINGS.rebalance_timeout_ms + REQUEST_TIMEOUT_MS


class Frozen(dict[Any, Any]):
    """A mapping that can be hashed. Nobody changes it."""

    __slots__ = ("_hash",)

    _hash: int

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash


def frozen(record: ClassicRecord) -> ClassicRecord:
    """The record with mappings that can be hashed."""
    learners = record.learner_memory
    return replace(
        _hashable(record),
        memory=_hashable(record.memory),
        # what KIP-415 remembers stands in the record, too
        learner_memory=None if learners is None else replace(_hashable(learners), cooperative=_hashable(Memory())),
    )


def _hashable(value: T) -> T:
    mappings = {
        field.name: _frozen(each)
        for field in fields(value)  # type: ignore[arg-type]  # mypy can't say: a dataclass
        if isinstance(each := getattr(value, field.name), Mapping)
    }
    return replace(value, **mappings)  # type: ignore[type-var]


def _frozen(mapping: Mapping[Any, Any]) -> Frozen:
    return Frozen({key: _frozen(each) if isinstance(each, Mapping) else each for key, each in mapping.items()})


class Fault(str, Enum):
    """What may go wrong, or be done to a worker; a scope says how often."""

    LOSS = "loss"
    """A request or an answer is lost; who waits notices immediately, or when the request's time is over."""
    LATE = "late"
    """A request, an answer, or the writing of a record takes longer than a step; or a task's stop does."""
    CRASH = "crash"
    """SIGKILL; another process for the worker may start at any time after it."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT at any time after it."""
    TAKEOVER = "takeover"
    """A second process takes the name of a worker whose process still runs."""
    LEAVE = "leave"
    """A worker leaves for good; another process for it may start at any time after it."""


class Attempt(NamedTuple):
    """A task that runs in a process.

    :param granted: the lease under which it was started was not ended since
    :param followed: another process has started the same task since
    """

    task: TaskId
    granted: bool = True
    followed: bool = False


class Process(NamedTuple):
    """One process of a worker.

    :param mark: its worker's name, and ``'`` if it was started beside another process of that name
    :param overslept: was paused, and has not been seen with a good lease since
    :param unread: the status topic has a group record that it has not read
    :param unspoken_for: another process has taken its name and could not know all that the last round gave it
    """

    mark: str
    state: MemberState
    running: tuple[Attempt, ...] = ()
    paused: bool = False
    overslept: bool = False
    unread: bool = False
    unspoken_for: bool = False

    @property
    def worker(self) -> WorkerId:
        return self.state.settings.worker

    @property
    def tasks(self) -> Tasks:
        return frozenset([attempt.task for attempt in self.running])


_UNHEARD = "-"


def unheard(mark: str) -> str:
    """The mark under which a process sent what it does not wait for any more: it is gone, or has asked again since."""
    return worker_of(mark) + _UNHEARD


def is_heard(mark: str) -> bool:
    return not mark.endswith(_UNHEARD)


def worker_of(mark: str) -> WorkerId:
    return WorkerId(mark.rstrip("'-"))


class Way(str, Enum):
    """What something under way is."""

    REQUEST = "request"
    ANSWER = "answer"
    FIND = "find"
    """FindCoordinator with its answer: any broker knows."""
    COMPUTE = "compute"
    """A leader reads the topics and assigns."""
    HOLD = "hold"
    """A leader holds back an assignment (``leading/unchanged_rounds.py``)."""
    WRITE = "write"
    """A group record on its way to the topic."""
    STOP = "stop"
    """Tasks were told to stop."""


class Said(NamedTuple):
    """What the status topic says of tasks, by which a leader computes a round.

    :param ready: what workers are ready for, by worker, with the member id under which each has said so
    :param started: what has ever been started
    """

    ready: Frozen = Frozen()
    started: Tasks = NO_TASKS

    def ready_as(self, members: Mapping[WorkerId, MemberId]) -> dict[WorkerId, Tasks]:
        """What those members have said themselves."""
        return {worker: tasks for worker, (member, tasks) in self.ready.items() if members.get(worker) == member}


class Flight(NamedTuple):
    """Something under way.

    :param mark: the process that sent it or that it goes to
    :param seq: of the request. ``AWAITED``: the one that the process waits for; ``AFTER``: a heartbeat that was sent
        after that one; ``BEFORE``: any other
    :param sent_at: of a heartbeat
    :param opens: it arrives then at the earliest
    :param due: time does not pass beyond this before it has arrived
    """

    way: Way
    mark: str
    seq: int
    what: Any
    sent_at: int | None = None
    opens: int = NOW
    due: int = NOW


BEFORE, AWAITED, AFTER = 0, 1, 2


class Join(NamedTuple):
    """A JoinGroup, and what the one who takes a name knew of the process that had it before.

    :param alone: there is none that may run still
    :param last: the newest record that it had read
    """

    command: SendJoin
    alone: bool = True
    last: ClassicRecord | None = None


class Sync(NamedTuple):
    """A leader's SyncGroup, and what it was computed from.

    :param record: what the leader decided; None in a follower's request
    :param last: the newest record that it knew
    :param said: what it knew of tasks
    """

    command: SendSync
    record: ClassicRecord | None = None
    last: ClassicRecord | None = None
    said: Said = Said()


class Held(NamedTuple):
    """What a leader has computed, and the newest record, and what was said of tasks, that it knew."""

    event: AssignmentComputed
    last: ClassicRecord | None
    said: Said


class Start(NamedTuple):
    """The last start of a task."""

    task: TaskId
    epoch: Epoch
    worker: WorkerId


class Topics(NamedTuple):
    """What the status topic has; and, for the invariants, what has happened.

    :param spoken_epoch: the highest one in which a worker has spoken
    :param stored: of the last round whose assignment the coordinator took, written or not
    :param ready: what workers are ready for, see :class:`Said`
    """

    record: ClassicRecord | None = None
    spoken_epoch: Epoch = Epoch(0)
    starts: tuple[Start, ...] = ()
    stored: ClassicRecord | None = None
    ready: Frozen = Frozen()

    @property
    def said(self) -> Said:
        return Said(self.ready, frozenset(start.task for start in self.starts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How large a world is, and what may happen in it.

    :param faults: how often each fault may strike
    :param protocol: in version 3 all tasks have state, and are learned before they move
    :param begun: it begins at rest, with so many workers; each of the others may start at any time
    :param worlds: how many there are, where it has been searched to the end; None: it never was
    """

    name: str
    faults: Mapping[Fault, int]
    workers: int = 2
    tasks: int = 2
    policy: Policy = DELAYED
    protocol: ConnectProtocol = SETTINGS.protocol
    begun: int = 0
    worlds: int | None = None

    @property
    def names(self) -> tuple[WorkerId, ...]:
        return tuple(WorkerId(f"w{number + 1}") for number in range(self.workers))

    @property
    def configured(self) -> Tasks:
        return frozenset(TaskId("a", index) for index in range(self.tasks))

    @property
    def settings(self) -> MemberSettings:
        """Where tasks are learned, rounds follow each other step by step, without a heartbeat. What starts then must
        outlast the step to the next one, which comes sooner in a real group: so nothing starts on so short a lease.
        """
        settings = replace(SETTINGS, protocol=self.protocol)
        return replace(settings, lease_margin_ms=TICK * 3 // 2) if self.stateful else settings

    @property
    def stateful(self) -> frozenset[str]:
        return frozenset({"a"}) if self.protocol is ConnectProtocol.EXTENSIBLE else frozenset()

    @property
    def budget(self) -> tuple[int, ...]:
        return tuple(self.faults.get(fault, 0) for fault in Fault)
