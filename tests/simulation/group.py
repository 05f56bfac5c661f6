"""What a group coordinator knows about a group (Kafka's ``ClassicGroup``), and its messages with members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from simulation.clock import Timer

from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol


class GroupState(str, Enum):
    EMPTY = "empty"
    PREPARING = "preparing rebalance"
    COMPLETING = "completing rebalance"
    STABLE = "stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    member_id: MemberId
    instance_id: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: KafkaErrorCode = KafkaErrorCode.NONE
    member_id: MemberId = MemberId("")
    generation: GenerationId = GenerationId(-1)
    protocol: str = ""
    leader: MemberId = MemberId("")
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: KafkaErrorCode = KafkaErrorCode.NONE
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member as the coordinator knows it; ``join`` and ``sync`` are callbacks of the replies that it waits for."""

    member_id: MemberId
    instance_id: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    is_new: bool = True
    assignment: bytes = b""
    join: Callable[[JoinReply], None] | None = None
    sync: Callable[[SyncReply], None] | None = None
    session: Timer | None = None

    @property
    def name(self) -> str:
        return self.instance_id or self.member_id

    def metadata(self, protocol: str) -> bytes:
        return dict(self.protocols)[protocol]

    def answer_join(self, reply: JoinReply) -> None:
        waiting, self.join = self.join, None
        if waiting is not None:
            waiting(reply)

    def answer_sync(self, reply: SyncReply) -> None:
        waiting, self.sync = self.sync, None
        if waiting is not None:
            waiting(reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSeen:
    """A rebalance on the wire: each member's metadata, and the leader's assignment for each."""

    generation: GenerationId
    protocol: SubProtocol
    leader: str
    leader_member: MemberId
    joined: Mapping[str, bytes]
    sent: Mapping[str, bytes]
    at_ms: int


@dataclass(slots=True, kw_only=True)
class Group:
    """What a coordinator stores about a group, and another one loads when the group moves."""

    state: GroupState = GroupState.EMPTY
    generation: GenerationId = GenerationId(0)
    protocol: str = ""
    leader: MemberId | None = None
    members: dict[MemberId, Member] = field(default_factory=dict)

    def copy(self) -> Group:
        members = {key: replace(member, join=None, sync=None, session=None) for key, member in self.members.items()}
        return replace(self, members=members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """``supportsProtocols``: whether all members offer one of these."""
        offered = {name for name, _ in protocols}
        return bool(offered & self._candidates() if self.members else offered)

    def _candidates(self) -> set[str]:
        """``candidateProtocols``"""
        offers = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*offers) if offers else set()

    def select_protocol(self) -> str:
        """``selectProtocol``: each member votes for its first choice among those that all support."""
        candidates = self._candidates()
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates) for member in self.members.values()
        )
        return max(sorted(votes), key=lambda name: votes[name])

    def static(self, instance_id: str) -> Member | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def validate(self, member_id: MemberId, instance_id: str | None) -> KafkaErrorCode:
        """``validateMember``"""
        if instance_id is not None:
            known = self.static(instance_id)
            if known is None:
                return KafkaErrorCode.UNKNOWN_MEMBER_ID
            if known.member_id != member_id:
                return KafkaErrorCode.FENCED_INSTANCE_ID
        return KafkaErrorCode.NONE if member_id in self.members else KafkaErrorCode.UNKNOWN_MEMBER_ID

    def validate_generation(
        self, member_id: MemberId, instance_id: str | None, generation: GenerationId
    ) -> KafkaErrorCode:
        error = self.validate(member_id, instance_id)
        if error is KafkaErrorCode.NONE and generation != self.generation:
            return KafkaErrorCode.ILLEGAL_GENERATION
        return error

    def member_list(self) -> tuple[JoinedMember, ...]:
        """The members as the leader gets them."""
        return tuple(
            JoinedMember(
                member_id=member.member_id, instance_id=member.instance_id, metadata=member.metadata(self.protocol)
            )
            for member in self.members.values()
        )
