"""A model of Kafka's classic group coordinator for one group, in virtual time.

It follows ``GroupMetadataManager`` and ``ClassicGroup`` (Kafka 4.x) request by request; the Java name of what a method
models stands in its docstring. What it leaves out: groups of consumers, the group's maximum size, ACLs, and the time
that writing to the log takes (what is stored is stored at once).

Requests are method calls, replies come through callbacks: at once, or, from JoinGroup and SyncGroup, when the other
members have come. Who calls decides about latency and loss.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from simulation.clock import Clock, Timer

from airflow_provider.membership.events import GroupError, JoinedMember
from airflow_provider.membership.model import GenerationId, MemberId, SubProtocol

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


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
    error: GroupError = GroupError.NONE
    member_id: MemberId = MemberId("")
    generation: GenerationId = GenerationId(-1)
    protocol: str = ""
    leader: MemberId = MemberId("")
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: GroupError = GroupError.NONE
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member as the coordinator knows it; ``join`` and ``sync`` are the replies that it waits for."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSeen:
    """A rebalance as it went over the wire: what each member said of itself, and what the leader sent to each."""

    generation: GenerationId
    protocol: SubProtocol
    leader: str
    joined: Mapping[str, bytes]
    sent: Mapping[str, bytes]
    at_ms: int


@dataclass(slots=True, kw_only=True)
class _Group:
    """What a coordinator stores of a group, and what another one loads when the group moves."""

    state: GroupState = GroupState.EMPTY
    generation: GenerationId = GenerationId(0)
    protocol: str = ""
    leader: MemberId | None = None
    members: dict[MemberId, Member] = field(default_factory=dict)

    def copy(self) -> _Group:
        members = {key: replace(member, join=None, sync=None, session=None) for key, member in self.members.items()}
        return replace(self, members=members)


class Coordinator:
    """One group at its coordinator.

    :param rng: chooses among members where Java goes by the order of a hash map
    :param initial_delay_ms: ``group.initial.rebalance.delay.ms``
    """

    def __init__(self, clock: Clock, rng: random.Random, *, initial_delay_ms: int = 0) -> None:
        self.node = 1
        self.rounds: list[RoundSeen] = []
        self._clock = clock
        self._rng = rng
        self._initial_delay_ms = initial_delay_ms
        self._group = _Group()
        self._stored = self._group.copy()
        self._pending: dict[MemberId, Timer] = {}
        self._initial = False
        self._new_member_added = False
        self._not_synced: set[MemberId] = set()
        self._joined: Mapping[str, bytes] = {}
        self._join_timer: Timer | None = None
        self._sync_timer: Timer | None = None
        self._ids = 0

    # ---- what an onlooker sees

    @property
    def state(self) -> GroupState:
        return self._group.state

    @property
    def generation(self) -> GenerationId:
        return self._group.generation

    @property
    def leader(self) -> str | None:
        leader = self._group.leader
        return None if leader is None else self._group.members[leader].name

    @property
    def members(self) -> frozenset[str]:
        return frozenset(member.name for member in self._group.members.values())

    # ---- what happens to a coordinator

    def forget(self) -> None:
        """The group is deleted. Generations start again."""
        self._drop_all(GroupError.UNKNOWN_MEMBER_ID)
        self._group = _Group()
        self._store()

    def move(self) -> None:
        """Another broker takes over: it knows what was stored, and nothing of a rebalance under way."""
        self._drop_all(GroupError.NOT_COORDINATOR)
        self.node += 1
        self._group = self._stored.copy()
        self._group.state = GroupState.STABLE if self._group.members else GroupState.EMPTY
        for member in self._group.members.values():
            member.is_new = False
            self._heard(member)

    def _drop_all(self, error: GroupError) -> None:
        for member in self._group.members.values():
            if member.session is not None:
                member.session.cancel()
            self._answer_join(member, JoinReply(error=error))
            self._answer_sync(member, SyncReply(error=error))
        for timer in (self._join_timer, self._sync_timer, *self._pending.values()):
            if timer is not None:
                timer.cancel()
        self._pending.clear()
        self._not_synced.clear()

    def _store(self) -> None:
        self._stored = self._group.copy()

    # ---- JoinGroup

    def join(self, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``classicGroupJoin``"""
        if not self._supports(request.protocols):
            reply(JoinReply(error=GroupError.INCONSISTENT_GROUP_PROTOCOL))
        elif request.member_id:
            self._join_existing(request, reply)
        elif request.instance_id is None:
            self._require_member_id(request, reply)
        else:
            self._join_static(request, reply)

    def _supports(self, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """``ClassicGroup.supportsProtocols``: something that all members offer."""
        offered = {name for name, _ in protocols}
        if self._group.state is GroupState.EMPTY:
            return bool(offered)
        return bool(offered & self._candidates())

    def _candidates(self) -> set[str]:
        """``ClassicGroup.candidateProtocols``"""
        offers = [{name for name, _ in member.protocols} for member in self._group.members.values()]
        return set.intersection(*offers) if offers else set()

    def _select_protocol(self) -> str:
        """``ClassicGroup.selectProtocol``: each member votes for what it likes best of what all can do."""
        candidates = self._candidates()
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates) for member in self._group.members.values()
        )
        return max(sorted(votes), key=lambda name: votes[name])

    def _new_member_id(self, prefix: str) -> MemberId:
        self._ids += 1
        return MemberId(f"{prefix}-{self._ids:04d}")

    def _require_member_id(self, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``classicGroupJoinNewDynamicMember``"""
        member_id = self._new_member_id("dynamic")
        self._pending[member_id] = self._clock.after(
            request.session_timeout_ms, lambda: self._remove_pending(member_id)
        )
        reply(JoinReply(error=GroupError.MEMBER_ID_REQUIRED, member_id=member_id))

    def _remove_pending(self, member_id: MemberId) -> None:
        del self._pending[member_id]
        self._complete_join_if_all_are_here()

    def _join_static(self, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``classicGroupJoinNewStaticMember``"""
        assert request.instance_id is not None
        member_id = self._new_member_id(request.instance_id)
        existing = self._static(request.instance_id)
        if existing is None:
            self._add(member_id, request, reply)
        else:
            self._replace_static(existing, member_id, request, reply)

    def _static(self, instance_id: str) -> Member | None:
        return next((member for member in self._group.members.values() if member.instance_id == instance_id), None)

    def _add(self, member_id: MemberId, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``addMemberThenRebalanceOrCompleteJoin``"""
        group = self._group
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            join=reply,
        )
        if group.state is GroupState.PREPARING and self._initial:
            self._new_member_added = True
        if group.leader is None:
            group.leader = member_id
        group.members[member_id] = member
        self._heard(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_or_complete()

    def _replace_static(
        self, old: Member, member_id: MemberId, request: JoinRequest, reply: Callable[[JoinReply], None]
    ) -> None:
        """``updateStaticMemberThenRebalanceOrCompleteJoin``, ``ClassicGroup.replaceStaticMember``"""
        group = self._group
        del group.members[old.member_id]
        if old.session is not None:
            old.session.cancel()
        self._answer_join(old, JoinReply(error=GroupError.FENCED_INSTANCE_ID, member_id=old.member_id))
        self._answer_sync(old, SyncReply(error=GroupError.FENCED_INSTANCE_ID))
        member = replace(
            old,
            member_id=member_id,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            join=reply,
            sync=None,
            session=None,
        )
        group.members[member_id] = member
        if group.leader == old.member_id:
            group.leader = member_id
        self._heard(member)
        if group.state is GroupState.STABLE and self._select_protocol() == group.protocol:
            self._store()
            self._answer_current_generation(member, skip_assignment=group.leader == member_id)
        elif group.state is GroupState.PREPARING:
            self._complete_join_if_all_are_here()
        else:
            self._prepare_rebalance()

    def _join_existing(self, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``classicGroupJoinExistingMember``"""
        pending = self._pending.pop(request.member_id, None)
        if pending is not None:
            pending.cancel()
            self._add(request.member_id, request, reply)
            return
        error = self._validate(request.member_id, request.instance_id)
        group = self._group
        if error is GroupError.NONE and group.state is GroupState.EMPTY:
            error = GroupError.UNKNOWN_MEMBER_ID
        if error is not GroupError.NONE:
            reply(JoinReply(error=error, member_id=request.member_id))
            return
        member = group.members[request.member_id]
        unchanged = member.protocols == request.protocols
        follower = group.leader != member.member_id
        if unchanged and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and follower)):
            member.join = reply
            self._answer_current_generation(member, skip_assignment=False)
            return
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.join = reply
        self._rebalance_or_complete()

    def _validate(self, member_id: MemberId, instance_id: str | None) -> GroupError:
        """``ClassicGroup.validateMember``"""
        if instance_id is not None:
            known = self._static(instance_id)
            if known is None:
                return GroupError.UNKNOWN_MEMBER_ID
            if known.member_id != member_id:
                return GroupError.FENCED_INSTANCE_ID
        return GroupError.NONE if member_id in self._group.members else GroupError.UNKNOWN_MEMBER_ID

    def _answer_current_generation(self, member: Member, *, skip_assignment: bool) -> None:
        group = self._group
        assert group.leader is not None
        leads = group.leader == member.member_id
        self._answer_join(
            member,
            JoinReply(
                member_id=member.member_id,
                generation=group.generation,
                protocol=group.protocol,
                leader=group.leader,
                members=self._member_list() if leads else (),
                skip_assignment=skip_assignment,
            ),
        )

    def _member_list(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata(self._group.protocol),
            )
            for member in self._group.members.values()
        )

    # ---- the two barriers

    def _rebalance_or_complete(self) -> None:
        """``maybePrepareRebalanceOrCompleteJoin``"""
        if self._group.state is GroupState.PREPARING:
            self._complete_join_if_all_are_here()
        else:
            self._prepare_rebalance()

    def _prepare_rebalance(self) -> None:
        """``prepareRebalance``"""
        group = self._group
        if group.state is GroupState.COMPLETING:
            for member in group.members.values():
                member.assignment = b""
            self._answer_syncs(GroupError.REBALANCE_IN_PROGRESS)
        self._not_synced.clear()
        if self._sync_timer is not None:
            self._sync_timer.cancel()
        self._initial = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING
        if self._initial:
            remaining = max(self._rebalance_timeout_ms() - self._initial_delay_ms, 0)
            self._wait_for_more(self._initial_delay_ms, remaining)
        elif self._all_joined():
            self._complete_join()
        else:
            self._schedule_join(self._rebalance_timeout_ms(), self._complete_join)

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self._group.members.values()), default=0)

    def _schedule_join(self, ms: int, action: Callable[[], None]) -> None:
        if self._join_timer is not None:
            self._join_timer.cancel()
        self._join_timer = self._clock.after(ms, action)

    def _wait_for_more(self, delay_ms: int, remaining_ms: int) -> None:
        """``tryCompleteInitialRebalanceElseSchedule``"""

        def over() -> None:
            if self._new_member_added and remaining_ms:
                self._new_member_added = False
                self._wait_for_more(min(self._initial_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join()

        self._schedule_join(delay_ms, over)

    def _all_joined(self) -> bool:
        return not self._pending and all(member.join is not None for member in self._group.members.values())

    def _complete_join_if_all_are_here(self) -> None:
        """``maybeCompleteJoinPhase``"""
        if self._group.state is GroupState.PREPARING and not self._initial and self._all_joined():
            self._complete_join()

    def _complete_join(self) -> None:
        """``completeClassicGroupJoin``. Static members who did not join stay, with what they said last time."""
        group = self._group
        if self._join_timer is not None:
            self._join_timer.cancel()
        for member in [m for m in group.members.values() if m.join is None and m.instance_id is None]:
            self._remove(member)
        if group.members and not self._elect_joined_leader():
            self._schedule_join(self._rebalance_timeout_ms(), self._complete_join)
            return
        group.generation = GenerationId(group.generation + 1)
        self._initial = False
        if not group.members:
            group.state, group.protocol = GroupState.EMPTY, ""
            self._store()
            return
        group.protocol = self._select_protocol()
        group.state = GroupState.COMPLETING
        self._joined = {member.name: member.metadata(group.protocol) for member in group.members.values()}
        for member in group.members.values():
            self._answer_current_generation(member, skip_assignment=False)
            self._heard(member)
            member.is_new = False
        self._not_synced = set(group.members)
        self._sync_timer = self._clock.after(self._rebalance_timeout_ms(), self._expire_syncs)

    def _elect_joined_leader(self) -> bool:
        """``ClassicGroup.maybeElectNewJoinedLeader``"""
        group = self._group
        joined = [member.member_id for member in group.members.values() if member.join is not None]
        if joined and group.leader not in joined:
            group.leader = self._rng.choice(joined)
        return bool(joined)

    def _expire_syncs(self) -> None:
        """``expirePendingSync``"""
        group = self._group
        if group.state in (GroupState.COMPLETING, GroupState.STABLE) and self._not_synced:
            for member_id in self._not_synced & group.members.keys():
                self._remove(group.members[member_id])
            self._prepare_rebalance()

    # ---- SyncGroup

    def sync(
        self,
        member_id: MemberId,
        instance_id: str | None,
        generation: GenerationId,
        protocol: str,
        assignments: Mapping[MemberId, bytes],
        reply: Callable[[SyncReply], None],
    ) -> None:
        """``classicGroupSyncToClassicGroup``"""
        group = self._group
        error = self._validate_generation(member_id, instance_id, generation)
        if error is GroupError.NONE and protocol != group.protocol:
            error = GroupError.INCONSISTENT_GROUP_PROTOCOL
        if error is GroupError.NONE and group.state is GroupState.PREPARING:
            error = GroupError.REBALANCE_IN_PROGRESS
        if error is not GroupError.NONE:
            reply(SyncReply(error=error))
            return
        member = group.members[member_id]
        self._not_synced.discard(member_id)
        if group.state is GroupState.STABLE:
            reply(SyncReply(assignment=member.assignment))
            return
        member.sync = reply
        if member_id == group.leader:
            self._store_assignments(assignments)

    def _store_assignments(self, assignments: Mapping[MemberId, bytes]) -> None:
        group = self._group
        assert group.leader is not None
        group.state = GroupState.STABLE
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._store()
        self.rounds.append(
            RoundSeen(
                generation=group.generation,
                protocol=SubProtocol(group.protocol),
                leader=group.members[group.leader].name,
                joined=self._joined,
                sent={member.name: member.assignment for member in group.members.values()},
                at_ms=self._clock.now,
            )
        )
        self._answer_syncs(GroupError.NONE)

    def _answer_syncs(self, error: GroupError) -> None:
        """``propagateAssignment``"""
        for member in list(self._group.members.values()):
            if member.sync is not None:
                self._answer_sync(member, SyncReply(error=error, assignment=member.assignment))
                self._heard(member)

    def _validate_generation(
        self, member_id: MemberId, instance_id: str | None, generation: GenerationId
    ) -> GroupError:
        error = self._validate(member_id, instance_id)
        if error is GroupError.NONE and generation != self._group.generation:
            return GroupError.ILLEGAL_GENERATION
        return error

    # ---- Heartbeat, sessions

    def heartbeat(self, member_id: MemberId, instance_id: str | None, generation: GenerationId) -> GroupError:
        """``classicGroupHeartbeatToClassicGroup``"""
        error = self._validate_generation(member_id, instance_id, generation)
        if error is not GroupError.NONE:
            return error
        self._heard(self._group.members[member_id])
        if self._group.state is GroupState.PREPARING:
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE

    def _heard(self, member: Member, timeout_ms: int | None = None) -> None:
        """``rescheduleClassicGroupMemberHeartbeat``"""
        if member.session is not None:
            member.session.cancel()
        member.session = self._clock.after(
            member.session_timeout_ms if timeout_ms is None else timeout_ms, lambda: self._session_over(member)
        )

    def _session_over(self, member: Member) -> None:
        """``expireClassicGroupMemberHeartbeat``. Whoever waits for a join or sync reply needs no heartbeat."""
        if self._group.members.get(member.member_id) is not member:
            return
        if member.is_new or (member.join is None and member.sync is None):
            self._answer_join(member, JoinReply(error=GroupError.UNKNOWN_MEMBER_ID))
            self._remove(member)
            self._after_removal()

    def _after_removal(self) -> None:
        """``removeMemberAndUpdateClassicGroup``"""
        if self._group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare_rebalance()
        else:
            self._complete_join_if_all_are_here()

    def _remove(self, member: Member) -> None:
        group = self._group
        del group.members[member.member_id]
        self._not_synced.discard(member.member_id)
        if member.session is not None:
            member.session.cancel()
        if group.leader == member.member_id:
            group.leader = self._rng.choice(list(group.members)) if group.members else None

    # ---- LeaveGroup

    def leave(self, member_id: MemberId, instance_id: str | None) -> GroupError:
        """``classicGroupLeaveToClassicGroup``; without a member id, whoever has the instance id leaves."""
        pending = self._pending.pop(member_id, None)
        if pending is not None:
            pending.cancel()
            self._complete_join_if_all_are_here()
            return GroupError.NONE
        if not member_id and instance_id is not None:
            known = self._static(instance_id)
            member_id = known.member_id if known is not None else member_id
        error = self._validate(member_id, instance_id)
        if error is GroupError.NONE:
            member = self._group.members[member_id]
            self._answer_join(member, JoinReply(error=GroupError.UNKNOWN_MEMBER_ID))
            self._remove(member)
            self._after_removal()
        return error

    # ---- replies

    def _answer_join(self, member: Member, reply: JoinReply) -> None:
        waiting, member.join = member.join, None
        if waiting is not None:
            waiting(reply)

    def _answer_sync(self, member: Member, reply: SyncReply) -> None:
        waiting, member.sync = member.sync, None
        if waiting is not None:
            waiting(reply)
