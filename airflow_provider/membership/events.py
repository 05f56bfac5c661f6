"""What a member of a classic group hears (events) and what it wants done (commands), with
:mod:`airflow_provider.protocol.member_events`, which any group protocol has.

A command that sends a request carries ``seq``; who answers it gives the same number back: so a late answer to
an older request is not taken for the one waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.holding import Predecessor
from airflow_provider.protocol.member_events import Command, Event
from airflow_provider.protocol.model import (
    NO_TASKS,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
)


class Request(str, Enum):
    """The requests that a member sends."""

    FIND_COORDINATOR = "FindCoordinator"
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the coordinator tells the leader of it."""

    member_id: MemberId
    instance_id: str | None
    metadata: bytes


# ---- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The worker's process is up and has read the jobs topic up to ``config_offset``.

    :param spoken_epoch: the highest one in which the status topic has any worker speak; 0: in none
    """

    config_offset: ConfigOffset
    predecessor: Predecessor = Predecessor.UNKNOWN
    spoken_epoch: Epoch = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The membership goes on in another process; its state was saved in the one before.

    :param predecessor: what is known of the worker's next process by that name, for a membership that must join anew
    :param spoken_epoch: as in :class:`Started`
    """

    config_offset: ConfigOffset
    predecessor: Predecessor = Predecessor.GONE
    spoken_epoch: Epoch = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFound(Event):
    """The broker ``node`` coordinates the group."""

    seq: int
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Event):
    """A request got no answer: connection refused or broken, or a timeout."""

    seq: int
    request: Request
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRejected(Event):
    """The coordinator answered with an error; ``member_id`` is the one it gives with MEMBER_ID_REQUIRED."""

    seq: int
    request: Request
    error: KafkaErrorCode
    member_id: MemberId = MemberId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """The rebalance has all its members: the coordinator named the generation and its leader."""

    seq: int
    generation: GenerationId
    protocol: SubProtocol
    leader: MemberId
    member_id: MemberId
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentComputed(Event):
    """This member leads, and the assignment that it was asked to perform is ready.

    ``record`` is None where the leader could not assign (CONFIG_MISMATCH).
    """

    seq: int
    assignments: Mapping[MemberId, bytes]
    record: ClassicRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(Event):
    """The coordinator handed out this member's assignment, as the leader encoded it."""

    seq: int
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswered(Event):
    """A heartbeat that was sent at ``sent_at_ms`` as that member in that generation was answered."""

    sent_at_ms: int
    member_id: MemberId
    generation: GenerationId
    error: KafkaErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRead(Event):
    """The status topic holds a newer ``group`` record, which its leader wrote ``age_ms`` ago by the wall clock."""

    record: ClassicRecord
    age_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWanted(Event):
    """What is configured, or who has room, differs from what the leader last assigned."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningProgressed(Event):
    """How far tasks are that this member learns.

    :param progress: from 0 to 1
    :param failed: those that it could not make ready
    """

    progress: Mapping[TaskId, float]
    failed: Tasks = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnersReady(Event):
    """All tasks of this member that the status topic says others are ready for."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveSoonRequested(Event):
    """The worker shall leave the group once others have taken what it has."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlChanged(Event):
    """The worker has another url to say of itself, and the group shall go round with it: a member whose metadata differ
    from those of its last join makes the coordinator rebalance.
    """

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    """The coordinator took this member out of the group."""

    seq: int


# ---- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinator(Command):
    """Ask any broker which one coordinates the group."""

    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendJoin(Command):
    """Send JoinGroup; answered only when all members have joined or the rebalance timeout is over."""

    seq: int
    node: int
    member_id: MemberId
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformAssignment(Command):
    """This member leads: compute everybody's assignment and answer with :class:`AssignmentComputed`.

    ``last_record`` is the newest that the member knows; its own may be on its way to the status topic still.
    """

    seq: int
    generation: GenerationId
    protocol: SubProtocol
    leader: MemberId
    last_completed: GenerationId
    members: tuple[JoinedMember, ...]
    reason: str
    last_record: ClassicRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSync(Command):
    """Send SyncGroup; only the leader's carries assignments."""

    seq: int
    node: int
    member_id: MemberId
    generation: GenerationId
    protocol: SubProtocol
    assignments: Mapping[MemberId, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat(Command):
    """Send Heartbeat."""

    seq: int
    node: int
    member_id: MemberId
    generation: GenerationId


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLeave(Command):
    """Send LeaveGroup, by instance id and, if known, member id."""

    seq: int
    node: int
    member_id: MemberId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLearning(Command):
    """Make these ready to run, and tell of it by :class:`LearningProgressed`. One that this member then owns is started
    or stopped as any other.
    """

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLearning(Command):
    """Let go of what was made ready for these; nothing waits for it."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class MayLeave(Command):
    """This member wants to leave soon, and has nothing left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishGroup(Command):
    """Write the ``group`` record: this member led, and its assignment has reached the coordinator."""

    record: ClassicRecord
