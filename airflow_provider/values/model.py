"""The values that members of a group exchange, and the errors they raise.

Everything here is immutable. Names are Kafka's (``generation_id``, ``member_id``) or those of the table of words in
``docs/architecture.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from reprlib import repr as short
from typing import Any, Final, NamedTuple, NewType

WorkerId = NewType("WorkerId", str)
"""A worker's name: its group instance id (KIP-345), stable over retries, deferrals and restarts."""

MemberId = NewType("MemberId", str)
"""The coordinator's name for a member; a worker that joins without one gets a new one."""

GenerationId = NewType("GenerationId", int)
"""The coordinator's number of a rebalance. It starts again when the coordinator forgets the group."""

Epoch = NewType("Epoch", int)
"""The number of an assignment. It grows with every completed rebalance, for ever."""

ConfigOffset = NewType("ConfigOffset", int)
"""How much of the jobs topic has been read: the offset after the last record read."""

UNKNOWN_MEMBER_ID: Final = MemberId("")
NO_GENERATION: Final = GenerationId(-1)
PLANNER_INDEX: Final = -1
HIGHEST_INDEX: Final = 2**31 - 1
"""The highest index of a task, and the highest generation: on the wire both are int32."""
LARGEST_NUMBER: Final = 2**53 - 1
"""The largest number taken from JSON: up to here all who read JSON read the same number (RFC 8259)."""
_LONGEST_NAME: Final = 2**15 - 1
"""The longest text on the wire, in bytes."""
PROTOCOL_TYPE: Final = "connect"


class TaskId(NamedTuple):
    """One unit of assignment: a task of a job, or (index -1) the job's planner.

    A named tuple and not a dataclass, because the assignor hashes hundreds of thousands of them in a round.
    """

    job: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which a task has no use for

    @property
    def is_planner(self) -> bool:
        return self.index == PLANNER_INDEX

    def __str__(self) -> str:
        return f"{self.job}:planner" if self.is_planner else f"{self.job}:{self.index}"


def labelled(task: TaskId, name: str) -> str:
    """A task for people: ``ingest:3 (orders)``, or ``ingest:3`` where its plan has no name for it."""
    return f"{task} ({name})" if name else str(task)


Tasks = frozenset[TaskId]
NO_TASKS: Final[Tasks] = frozenset()


def planner_of(job: str) -> TaskId:
    """The planner of ``job``, as a unit of assignment."""
    return TaskId(job, PLANNER_INDEX)


class SubProtocol(str, Enum):
    """A version of Connect's embedded protocol, by the name under which a member offers it."""

    DEFAULT = "default"
    """v0, eager: members stop everything before they join."""
    COMPATIBLE = "compatible"
    """v1, incremental cooperative (KIP-415)."""
    SESSIONED = "sessioned"
    """v2, as v1 on the wire (KIP-507)."""
    EXTENSIBLE = "extensible"
    """v3, in which tasks can be learned before they move (:mod:`airflow_provider.group.classic.wire.extensible`)."""
    COMPRESSED = "compressed"
    """v4, as v3 in everything but its bytes, which are fewer (:mod:`airflow_provider.group.classic.wire.v4`)."""

    @property
    def version(self) -> int:
        """The number on the wire."""
        return _VERSIONS[self]

    @property
    def cooperative(self) -> bool:
        """Whether members keep running their tasks while they join."""
        return self is not SubProtocol.DEFAULT

    @property
    def learns(self) -> bool:
        """Whether tasks can be learned before they move, so that an assignment is a complete target."""
        return self in (SubProtocol.EXTENSIBLE, SubProtocol.COMPRESSED)

    @property
    def recorded(self) -> SubProtocol:
        """The one by whose rules the group behaves. It stands in records and in saved memberships, because an older
        release, which may read them, does not know one that only has other bytes.
        """
        return SubProtocol.EXTENSIBLE if self is SubProtocol.COMPRESSED else self


_VERSIONS: Final = {
    SubProtocol.DEFAULT: 0,
    SubProtocol.COMPATIBLE: 1,
    SubProtocol.SESSIONED: 2,
    SubProtocol.EXTENSIBLE: 3,
    SubProtocol.COMPRESSED: 4,
}


class ConnectProtocol(str, Enum):
    """The setting ``connect.protocol``: which versions of the embedded protocol a worker offers."""

    EAGER = "eager"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"
    EXTENSIBLE = "extensible"

    @property
    def offered(self) -> tuple[SubProtocol, ...]:
        """The offered versions, the preferred one first."""
        return _OFFERED[self]


_OFFERED: Final = {
    ConnectProtocol.EAGER: (SubProtocol.DEFAULT,),
    ConnectProtocol.COMPATIBLE: (SubProtocol.COMPATIBLE, SubProtocol.DEFAULT),
    ConnectProtocol.SESSIONED: (SubProtocol.SESSIONED, SubProtocol.COMPATIBLE, SubProtocol.DEFAULT),
    ConnectProtocol.EXTENSIBLE: (
        SubProtocol.COMPRESSED,
        SubProtocol.EXTENSIBLE,
        SubProtocol.SESSIONED,
        SubProtocol.COMPATIBLE,
        SubProtocol.DEFAULT,
    ),
}


class AssignmentError(IntEnum):
    """The error field of an assignment (Connect's ``ConnectProtocol.Assignment``)."""

    NONE = 0
    CONFIG_MISMATCH = 1
    """The leader could not read the jobs topic as far as some member already has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A leader's assignment for one member, with the fields of the wire.

    In v0 ``assigned`` is all that the member has to run. In v1 and v2 it is what to start in addition, and ``revoked``
    is what to stop. Nested in a member's metadata, it tells the leader what the member owns.
    """

    version: int
    error: int = AssignmentError.NONE
    leader: str = ""
    leader_url: str = ""
    config_offset: ConfigOffset = ConfigOffset(-1)
    assigned: Tasks = NO_TASKS
    revoked: Tasks = NO_TASKS
    delay_ms: int = 0
    """Join again after so many milliseconds; 0: no need to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """A member's metadata in a JoinGroup request, with the fields of the wire."""

    version: int
    url: str
    config_offset: ConfigOffset
    assignment: Assignment | None = None
    """What the member owns; always None in v0, where a member has stopped everything before it joins."""

    @property
    def owned(self) -> Tasks:
        """What the member owns, as a set."""
        return self.assignment.assigned if self.assignment else NO_TASKS


class ProtocolError(Exception):
    """Somebody has broken the group protocol."""


class LocalProtocolError(ProtocolError):
    """Our own code asked for something that the protocol does not allow now: a bug on this side."""


class RemoteProtocolError(ProtocolError):
    """A peer (coordinator, leader, member) sent something that it must not send."""


class MalformedEmbeddedError(RemoteProtocolError):
    """Bytes that are no metadata or assignment of Connect's embedded protocol."""


WriteTasks = Callable[[Tasks], Any]
"""Gives a set of tasks as JSON: :func:`tasks_to_json`, unless the document has another form."""
ReadTasks = Callable[[Any], Tasks]
"""The inverse of it: :func:`tasks_from_json`, or that of the document."""


def tasks_to_json(tasks: Iterable[TaskId]) -> list[list[str | int]]:
    """Tasks as sorted ``[job, index]`` pairs: their form in all JSON of this package, apart from packed rounds."""
    return list(map(list, sorted(tasks)))


def tasks_from_json(pairs: Iterable[Iterable[str | int]]) -> Tasks:
    """The inverse of :func:`tasks_to_json`.

    :raises ValueError: for anything that is not a ``[job, index]`` pair
    """
    return frozenset(_task_from_json(pair) for pair in pairs) or NO_TASKS


def name_from_json(name: object) -> str:
    """Check the name of a worker, or a member id.

    :raises ValueError: if it is not a text, or has more bytes than the wire can carry
    """
    if not isinstance(name, str):
        raise ValueError(f"a name must be a text, not {short(name)}")
    if not _can_be_sent(name):
        raise ValueError(f"a name must have at most {_LONGEST_NAME} bytes, unlike {short(name)}")
    return name


def whole_from_json(value: object, what: str, *, least: int = 0, most: int = LARGEST_NUMBER) -> int:
    """Check a whole number.

    :param what: its name, for the error
    :raises ValueError: if it is not a whole number in that range
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {short(value)}")
    return value


def _can_be_sent(name: str) -> bool:
    """Encodes the name only if its length leaves a doubt: a character takes at most four bytes."""
    return 4 * len(name) <= _LONGEST_NAME or len(name.encode()) <= _LONGEST_NAME


def _task_from_json(pair: Iterable[str | int]) -> TaskId:
    if isinstance(pair, (list, tuple)) and len(pair) == 2:
        job, index = pair
        if isinstance(job, str) and type(index) is int and index >= PLANNER_INDEX:
            if index > HIGHEST_INDEX or not _can_be_sent(job):
                raise ValueError(f"the wire can't carry the task {short(pair)}")
            return TaskId(job, index)
    raise ValueError(f"a task is a pair [job, index] with index >= -1, not {short(pair)}")
