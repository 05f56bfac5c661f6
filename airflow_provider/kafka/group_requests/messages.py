"""Group requests and their answers as values, independent of their version on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    UNKNOWN_MEMBER_ID,
    GenerationId,
    MemberId,
    WorkerId,
)

NodeId = NewType("NodeId", int)
"""The id of a broker in its cluster."""

NO_NODE = NodeId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """The broker that coordinates the group. ``node`` is valid only if ``error`` is NONE."""

    error: KafkaErrorCode
    node: NodeId = NO_NODE
    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A request to join or rejoin a group. It is answered when all members have joined. Times are in milliseconds.

    :param member_id: empty at first. A member without instance id is given one (MEMBER_ID_REQUIRED) and joins again
    :param protocols: the offered protocols with this member's metadata for each, the preferred one first
    :param reason: logged by the broker (KIP-800)
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
    """A member, as the coordinator describes it to the leader."""

    member_id: MemberId
    group_instance_id: WorkerId | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResponse:
    """The generation that a member has joined.

    :param member_id: also given with MEMBER_ID_REQUIRED, to be used in the next JoinGroup
    :param skip_assignment: this member leads, but has returned to a group whose assignment does not change (KIP-814)
    :param members: all members; only the leader gets them
    """

    error: KafkaErrorCode
    generation: GenerationId = NO_GENERATION
    protocol: str = ""
    leader: MemberId = UNKNOWN_MEMBER_ID
    member_id: MemberId = UNKNOWN_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A request for the member's assignment. The leader's also contains all assignments, and all are answered then."""

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
    """A member, as in the description of a group."""

    member_id: MemberId
    group_instance_id: WorkerId | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """The description of a group by its coordinator. It does not contain the generation.

    :param state: ``Stable``, ``PreparingRebalance``, ``CompletingRebalance``, ``Empty`` or ``Dead``. A group that does
        not exist is ``Dead``, too; newer brokers also return the error GROUP_ID_NOT_FOUND
    """

    error: KafkaErrorCode
    group_id: str
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group in a list. ``state`` is empty if the broker is too old to return it."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups of one broker, or of all brokers."""

    error: KafkaErrorCode
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The offset that a consumer group has committed; None: it has committed none."""

    error: KafkaErrorCode
    offset: int | None = None
