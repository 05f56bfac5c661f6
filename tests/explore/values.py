"""The parts of a world of the exploration: plain values that can be compared and hashed.

There is no clock: it is always ``NOW``, and every time in a world is relative to it. When time passes, all times are
lowered. So worlds that differ only in when they happen are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from airflow_provider.assignment.model import Memory
from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.group.classic.member.events import AssignmentComputed, SendJoin, SendSync
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import (
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
"""The length of a time step in milliseconds; what is due between two steps happens at the second."""
NOW = 10_000_000
"""The time on every clock in milliseconds, far from 0, which means "none" in some fields."""
OFFSET = ConfigOffset(1)
"""From the beginning, everybody has read the whole configuration."""

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
"""One heartbeat per step, of which two may be lost; retries happen in the next step."""
DELAYED = Deferred(max_delay_ms=5 * TICK)
REQUEST_TIMEOUT_MS = 2 * TICK
HEARTBEAT_TIMEOUT_MS = SETTINGS.session_timeout_ms - SETTINGS.lease_margin_ms
ROUND_TIMEOUT_MS = SETTINGS.rebalance_timeout_ms + REQUEST_TIMEOUT_MS


class Frozen(dict[Any, Any]):
    """A hashable mapping that is never changed."""

    __slots__ = ("_hash",)

    _hash: int

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash


def frozen(record: ClassicRecord) -> ClassicRecord:
    """The record with hashable mappings."""
    learners = record.learner_memory
    return replace(
        _hashable(record),
        memory=_hashable(record.memory),
        # the record also has what KIP-415's leader remembers
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
    """What may go wrong, or be done to a worker; a scope limits how often."""

    LOSS = "loss"
    """A request or an answer is lost; the waiting process notices immediately, or at the request's timeout."""
    LATE = "late"
    """A request, an answer, the write of a record or the stop of a task takes longer than a step."""
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
    :param followed: whether another process has started the same task since
    """

    task: TaskId
    granted: bool = True
    followed: bool = False


class Process(NamedTuple):
    """One process of a worker.

    :param mark: its worker's name, with ``'`` if it was started beside another process of that name
    :param overslept: whether it was paused and has had no good lease since
    :param unread: whether the status topic has a group record that it has not read
    :param unspoken_for: whether another process has taken its name without knowing all that the last round gave it
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
    """The mark for flights that a process no longer waits for: it is gone, or has asked again since."""
    return worker_of(mark) + _UNHEARD


def is_heard(mark: str) -> bool:
    return not mark.endswith(_UNHEARD)


def worker_of(mark: str) -> WorkerId:
    return WorkerId(mark.rstrip("'-"))


class Way(str, Enum):
    """The kinds of flights."""

    REQUEST = "request"
    ANSWER = "answer"
    FIND = "find"
    """FindCoordinator with its answer: any broker can answer."""
    COMPUTE = "compute"
    """A leader reads the topics and assigns."""
    HOLD = "hold"
    """A leader holds back an assignment (``state/rounds/unchanged_rounds.py``)."""
    WRITE = "write"
    """A group record on its way to the topic."""
    STOP = "stop"
    """Tasks that were told to stop."""


class Said(NamedTuple):
    """The status topic's information about tasks from which a leader computes a round.

    :param ready: the tasks that each worker is ready for, with the member id under which it reported them
    :param started: all tasks that were ever started
    """

    ready: Frozen = Frozen()
    started: Tasks = NO_TASKS

    def ready_as(self, members: Mapping[WorkerId, MemberId]) -> dict[WorkerId, Tasks]:
        """What these very members have reported."""
        return {worker: tasks for worker, (member, tasks) in self.ready.items() if members.get(worker) == member}


class Flight(NamedTuple):
    """A message, timer or other event under way.

    :param mark: the process that sent it or that it goes to
    :param seq: of the request: ``AWAITED`` if the process waits for it; ``AFTER`` for a heartbeat that was sent after
        that one; ``BEFORE`` for any other
    :param sent_at: when a heartbeat was sent
    :param opens: the earliest time of its arrival
    :param due: the latest time of its arrival
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
    """A JoinGroup, and what a process that takes over a name knew of the one before.

    :param alone: whether no other process of this name may still run
    :param last: the newest record that it had read
    """

    command: SendJoin
    alone: bool = True
    last: ClassicRecord | None = None


class Sync(NamedTuple):
    """A SyncGroup, and what a leader's was computed from.

    :param record: the leader's decision; None in a follower's request
    :param last: the newest record that the leader knew
    :param said: what the leader knew about tasks
    """

    command: SendSync
    record: ClassicRecord | None = None
    last: ClassicRecord | None = None
    said: Said = Said()


class Held(NamedTuple):
    """A leader's computed round, with the newest record and the tasks' information that it knew."""

    event: AssignmentComputed
    last: ClassicRecord | None
    said: Said


class Start(NamedTuple):
    """The last start of a task."""

    task: TaskId
    epoch: Epoch
    worker: WorkerId


class Topics(NamedTuple):
    """The content of the status topic and, for the invariants, what has happened.

    :param spoken_epoch: the highest epoch in which a worker has written
    :param stored: the record of the last round whose assignment the coordinator accepted, written or not
    :param ready: the tasks that workers are ready for, see :class:`Said`
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
    """The size of a world, and what may happen in it.

    :param faults: how often each fault may strike
    :param protocol: in version 3 all tasks have state and are learned before they move
    :param begun: the number of workers at the beginning, when all is at rest; the others may start at any time
    :param worlds: the number of worlds, if it was ever searched to the end
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
        """Where tasks are learned, rounds follow each other in each step, without a heartbeat between them. A lease
        must last until the next step, which comes sooner in a real group: so nothing starts on a shorter lease.
        """
        settings = replace(SETTINGS, protocol=self.protocol)
        return replace(settings, lease_margin_ms=TICK * 3 // 2) if self.stateful else settings

    @property
    def stateful(self) -> frozenset[str]:
        return frozenset({"a"}) if self.protocol is ConnectProtocol.EXTENSIBLE else frozenset()

    @property
    def budget(self) -> tuple[int, ...]:
        return tuple(self.faults.get(fault, 0) for fault in Fault)
