"""Group requests and their answers as values, without regard to the version in which they go over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from airflow_provider.kafka.errors import KafkaErrorCode
from airflow_provider.protocol.model import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    UNKNOWN_MEMBER_ID,
    GenerationId,
    MemberId,
    WorkerId,
)

NodeId = NewType("NodeId", int)
"""A broker's number in its cluster."""

NO_NODE = NodeId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """Which broker coordinates the group; ``node`` means nothing unless ``error`` is NONE."""

    error: KafkaErrorCode
    node: NodeId = NO_NODE
    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Join a group, or rejoin it; answered when all members have joined (times in milliseconds).

    :param member_id: empty at first; a member without instance id is given one (MEMBER_ID_REQUIRED) and joins again
    :param protocols: the offered protocols and this member's metadata in each, the preferred one first
    :param reason: goes to the broker, which logs it (KIP-800)
    """

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    member_id: MemberId = UNKNOWN_MEMBER_ID
    group_instance_id: WorkerId | None = None
    protocol_type: str = PROTOCOL_TYPE
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinMember:
    """A member as the coordinator tells the leader of it."""

    member_id: MemberId
    group_instance_id: WorkerId | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResponse:
    """The generation that a member has joined.

    :param member_id: also given with MEMBER_ID_REQUIRED, and then to be used in the next JoinGroup
    :param skip_assignment: this member leads, but came back to a group that stays as it is (KIP-814)
    :param members: everybody, for the leader only
    """

    error: KafkaErrorCode
    generation: GenerationId = NO_GENERATION
    protocol: str = ""
    leader: MemberId = UNKNOWN_MEMBER_ID
    member_id: MemberId = UNKNOWN_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinMember, ...] = ()

    @property
    def is_leader(self) -> bool:
        return self.error is KafkaErrorCode.NONE and self.leader == self.member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """Get one's assignment, and, as the leader, hand in everybody's; answered when the leader has done so."""

    group_id: str
    generation: GenerationId
    member_id: MemberId
    protocol: str
    group_instance_id: WorkerId | None = None
    protocol_type: str = PROTOCOL_TYPE
    assignments: Mapping[MemberId, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    """A member's assignment, as the leader encoded it."""

    error: KafkaErrorCode
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member as the coordinator shows it to anybody."""

    member_id: MemberId
    group_instance_id: WorkerId | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as its coordinator shows it to anybody; there is no generation in it.

    :param state: ``Stable``, ``PreparingRebalance``, ``CompletingRebalance``, ``Empty`` or ``Dead`` (also for a group
        that is not there, which newer brokers answer with the error GROUP_ID_NOT_FOUND as well)
    """

    error: KafkaErrorCode
    group_id: str
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group that some broker coordinates; ``state`` is empty if the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups of one broker, or of all."""

    error: KafkaErrorCode
    groups: tuple[ListedGroup, ...] = ()
