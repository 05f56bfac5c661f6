"""The events and commands of a member of a classic group, in addition to those of any group protocol
(:mod:`airflow_provider.group.machine.events`).

A command that sends a request carries ``seq``, and the event with its answer has the same number. So a late answer to
an older request is not mistaken for the awaited one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import Command, Event
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import (
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
    """A member, as the coordinator describes it to the leader."""

    member_id: MemberId
    instance_id: str | None
    metadata: bytes


# ---- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The worker's process has started, and has read the jobs topic up to ``config_offset``.

    :param spoken_epoch: the highest epoch in which any worker has written to the status topic; 0: none has
    """

    config_offset: ConfigOffset
    predecessor: Predecessor = Predecessor.UNKNOWN
    spoken_epoch: Epoch = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Started):
    """The membership continues in another process, with the state that the one before has saved.

    :param predecessor: what is known of other processes under the worker's name, for a membership that must join again
    """

    predecessor: Predecessor = Predecessor.GONE


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
    """The coordinator answered with an error. ``member_id`` is set with MEMBER_ID_REQUIRED: the one to join with."""

    seq: int
    request: Request
    error: KafkaErrorCode
    member_id: MemberId = MemberId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Event):
    """The rebalance has all its members: the coordinator gave the generation and the leader."""

    seq: int
    generation: GenerationId
    protocol: SubProtocol
    leader: MemberId
    member_id: MemberId
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentComputed(Event):
    """The assignment for which this member was asked as the leader.

    ``record`` is None if the leader could not assign (CONFIG_MISMATCH).
    """

    seq: int
    assignments: Mapping[MemberId, bytes]
    record: ClassicRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(Event):
    """The coordinator sent this member's assignment, as the leader encoded it."""

    seq: int
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswered(Event):
    """A heartbeat was answered that this member had sent at ``sent_at_ms``, with these member id and generation."""

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
class RebalanceHinted(Event):
    """The status topic hints that the group has begun to rebalance, or soon will. Nothing depends on it: if it is wrong
    or does not come, a heartbeat tells the truth.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWanted(Event):
    """What is configured, or who has free slots, differs from what the leader last assigned."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningProgressed(Event):
    """The progress of the tasks that this member learns.

    :param progress: from 0 to 1
    :param failed: those that it could not make ready
    """

    progress: Mapping[TaskId, float]
    failed: Tasks = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnersReady(Event):
    """All tasks of this member for which others are ready, according to the status topic."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveSoonRequested(Event):
    """The worker is to leave the group as soon as others have taken over its tasks."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlChanged(Event):
    """The worker has another url, and the group has to rebalance so that all learn of it.

    The coordinator rebalances because the member's metadata differ from those of its last join.
    """

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    """The coordinator has removed this member from the group."""

    seq: int


# ---- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinator(Command):
    """Ask any broker which one is the group's coordinator."""

    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendJoin(Command):
    """Send JoinGroup; answered only when all members have joined or the rebalance timeout has passed."""

    seq: int
    node: int
    member_id: MemberId
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformAssignment(Command):
    """Compute all members' assignments, as this member leads, and feed :class:`AssignmentComputed`.

    ``last_record`` is the newest that the member knows; its own may still be on its way to the status topic. ``epoch``
    is that of the last round that the member was in, whose record may never have been written.
    """

    seq: int
    generation: GenerationId
    protocol: SubProtocol
    leader: MemberId
    last_completed: GenerationId
    members: tuple[JoinedMember, ...]
    reason: str
    last_record: ClassicRecord | None = None
    epoch: Epoch = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSync(Command):
    """Send SyncGroup; only the leader's has assignments."""

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
    """Send LeaveGroup with the instance id and, if known, the member id."""

    seq: int
    node: int
    member_id: MemberId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLearning(Command):
    """Warm up these tasks, and report by :class:`LearningProgressed`. If this member gets to own one, it is started or
    stopped like any other.
    """

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLearning(Command):
    """Discard what was warmed up for these tasks; nothing waits for that."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class MayLeave(Command):
    """Report that this member, which wants to leave soon, has nothing left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishGroup(Command):
    """Write the ``group`` record of a round that this member led: the coordinator has its assignment."""

    record: ClassicRecord
