"""A group as its coordinator knows it, as one value."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, WorkerId


class Member(NamedTuple):
    """A member as the coordinator knows it.

    :param join: the process that waits for the answer to its JoinGroup; None if it has not joined this rebalance
    :param sync: the same for SyncGroup
    :param session_at: the end of its session; None while it needs no heartbeats
    """

    member_id: MemberId
    worker: WorkerId
    protocols: tuple[tuple[str, bytes], ...]
    is_new: bool = True
    assignment: bytes = b""
    join: str | None = None
    sync: str | None = None
    session_at: int | None = None


class GroupState(str, Enum):
    EMPTY = "empty"
    PREPARING = "preparing rebalance"
    COMPLETING = "completing rebalance"
    STABLE = "stable"


class Group(NamedTuple):
    """The group as its coordinator knows it.

    :param members: by their workers' names
    :param initial: whether this is the first rebalance of an empty group, which waits for its timer
    """

    state: GroupState = GroupState.EMPTY
    generation: GenerationId = GenerationId(0)
    protocol: str = ""
    leader: MemberId | None = None
    members: tuple[Member, ...] = ()
    not_synced: frozenset[MemberId] = frozenset()
    initial: bool = False
    join_at: int | None = None
    sync_at: int | None = None

    def static(self, worker: str) -> Member | None:
        return next((member for member in self.members if member.worker == worker), None)

    def with_id(self, member_id: str | None) -> Member | None:
        return next((member for member in self.members if member.member_id == member_id), None)

    def put(self, member: Member) -> Group:
        others = (other for other in self.members if other.worker != member.worker)
        return self._replace(members=tuple(sorted((*others, member), key=lambda member: member.worker)))


def validate(group: Group, worker: str, member_id: str) -> KafkaErrorCode:
    """``validateMember``"""
    known = group.static(worker)
    if known is None:
        return KafkaErrorCode.UNKNOWN_MEMBER_ID
    return KafkaErrorCode.NONE if known.member_id == member_id else KafkaErrorCode.FENCED_INSTANCE_ID


def validate_generation(group: Group, worker: str, member_id: str, generation: int) -> KafkaErrorCode:
    error = validate(group, worker, member_id)
    if error is KafkaErrorCode.NONE and generation != group.generation:
        return KafkaErrorCode.ILLEGAL_GENERATION
    return error
