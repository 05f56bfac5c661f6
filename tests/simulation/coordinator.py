"""A model of Kafka's classic group coordinator for one group, in virtual time.

It follows ``GroupMetadataManager`` and ``ClassicGroup`` (Kafka 4.x) request by request; a method's docstring has the
Java name of what it models. Left out: consumer groups, the group's maximum size, ACLs, and the time of writes to the
log (they are immediate).

Requests are method calls; replies come through callbacks: immediately, or for JoinGroup and SyncGroup when the other
members have come. The caller simulates latency and loss.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from simulation.clock import Clock, Timer
from simulation.group import Group, GroupState, JoinReply, JoinRequest, Member, RoundSeen, SyncReply

from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


class Coordinator:
    """One group at its coordinator.

    :param rng: chooses among members where Java uses the order of a hash map
    :param initial_delay_ms: ``group.initial.rebalance.delay.ms``
    """

    def __init__(self, clock: Clock, rng: random.Random, *, initial_delay_ms: int = 0) -> None:
        self.node = 1
        self.rounds: list[RoundSeen] = []
        self._clock = clock
        self._rng = rng
        self._initial_delay_ms = initial_delay_ms
        self._group = Group()
        self._stored = self._group.copy()
        self._pending: dict[MemberId, Timer] = {}
        self._initial = False
        self._new_member_added = False
        self._not_synced: set[MemberId] = set()
        self._joined: Mapping[str, bytes] = {}
        self._join_timer: Timer | None = None
        self._sync_timer: Timer | None = None
        self._ids = 0

    # ---- what others see

    @property
    def state(self) -> GroupState:
        return self._group.state

    @property
    def generation(self) -> GenerationId:
        return self._group.generation

    @property
    def protocol(self) -> SubProtocol | None:
        return SubProtocol(self._group.protocol) if self._group.protocol else None

    @property
    def learns(self) -> bool:
        return self.protocol is not None and self.protocol.learns

    @property
    def leader(self) -> str | None:
        leader = self._group.leader
        return None if leader is None else self._group.members[leader].name

    @property
    def members(self) -> frozenset[str]:
        return frozenset(member.name for member in self._group.members.values())

    def is_current(self, member_id: MemberId, generation: GenerationId) -> bool:
        """Whether it is a member of the group's present generation."""
        return generation == self._group.generation and member_id in self._group.members

    # ---- faults

    def forget(self) -> None:
        """The group is deleted. Generations start again."""
        self._drop_all(KafkaErrorCode.UNKNOWN_MEMBER_ID)
        self._group = Group()
        self._store()

    def move(self) -> None:
        """Another broker takes over: it knows what was stored, and nothing about a rebalance under way."""
        self._drop_all(KafkaErrorCode.NOT_COORDINATOR)
        self.node += 1
        self._group = self._stored.copy()
        self._group.state = GroupState.STABLE if self._group.members else GroupState.EMPTY
        for member in self._group.members.values():
            member.is_new = False
            self._heard(member)

    def _drop_all(self, error: KafkaErrorCode) -> None:
        for member in self._group.members.values():
            if member.session is not None:
                member.session.cancel()
            member.answer_join(JoinReply(error=error))
            member.answer_sync(SyncReply(error=error))
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
        if not self._group.supports(request.protocols):
            reply(JoinReply(error=KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif request.member_id:
            self._join_existing(request, reply)
        elif request.instance_id is None:
            self._require_member_id(request, reply)
        else:
            self._join_static(request, reply)

    def _new_member_id(self, prefix: str) -> MemberId:
        self._ids += 1
        return MemberId(f"{prefix}-{self._ids:04d}")

    def _require_member_id(self, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``classicGroupJoinNewDynamicMember``"""
        member_id = self._new_member_id("dynamic")
        self._pending[member_id] = self._clock.after(
            request.session_timeout_ms, lambda: self._remove_pending(member_id)
        )
        reply(JoinReply(error=KafkaErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))

    def _remove_pending(self, member_id: MemberId) -> None:
        del self._pending[member_id]
        self._complete_join_if_all_are_here()

    def _join_static(self, request: JoinRequest, reply: Callable[[JoinReply], None]) -> None:
        """``classicGroupJoinNewStaticMember``"""
        assert request.instance_id is not None
        member_id = self._new_member_id(request.instance_id)
        existing = self._group.static(request.instance_id)
        if existing is None:
            self._add(member_id, request, reply)
        else:
            self._replace_static(existing, member_id, request, reply)

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
        old.answer_join(JoinReply(error=KafkaErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id))
        old.answer_sync(SyncReply(error=KafkaErrorCode.FENCED_INSTANCE_ID))
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
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
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
        error = self._group.validate(request.member_id, request.instance_id)
        group = self._group
        if error is KafkaErrorCode.NONE and group.state is GroupState.EMPTY:
            error = KafkaErrorCode.UNKNOWN_MEMBER_ID
        if error is not KafkaErrorCode.NONE:
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

    def _answer_current_generation(self, member: Member, *, skip_assignment: bool) -> None:
        group = self._group
        assert group.leader is not None
        leads = group.leader == member.member_id
        member.answer_join(
            JoinReply(
                member_id=member.member_id,
                generation=group.generation,
                protocol=group.protocol,
                leader=group.leader,
                members=group.member_list() if leads else (),
                skip_assignment=skip_assignment,
            ),
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
            self._answer_syncs(KafkaErrorCode.REBALANCE_IN_PROGRESS)
        self._not_synced.clear()
        if self._sync_timer is not None:
            self._sync_timer.cancel()
        self._initial = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING
        if self._initial:
            remaining = max(self._group.rebalance_timeout_ms - self._initial_delay_ms, 0)
            self._wait_for_more(self._initial_delay_ms, remaining)
        elif self._all_joined():
            self._complete_join()
        else:
            self._schedule_join(self._group.rebalance_timeout_ms, self._complete_join)

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
        """``completeClassicGroupJoin``. Static members that did not join stay, with their last metadata."""
        group = self._group
        if self._join_timer is not None:
            self._join_timer.cancel()
        for member in [m for m in group.members.values() if m.join is None and m.instance_id is None]:
            self._remove(member)
        if group.members and not self._elect_joined_leader():
            self._schedule_join(self._group.rebalance_timeout_ms, self._complete_join)
            return
        group.generation = GenerationId(group.generation + 1)
        self._initial = False
        if not group.members:
            group.state, group.protocol = GroupState.EMPTY, ""
            self._store()
            return
        group.protocol = group.select_protocol()
        group.state = GroupState.COMPLETING
        self._joined = {member.name: member.metadata(group.protocol) for member in group.members.values()}
        for member in group.members.values():
            self._answer_current_generation(member, skip_assignment=False)
            self._heard(member)
            member.is_new = False
        self._not_synced = set(group.members)
        self._sync_timer = self._clock.after(self._group.rebalance_timeout_ms, self._expire_syncs)

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
        error = self._group.validate_generation(member_id, instance_id, generation)
        if error is KafkaErrorCode.NONE and protocol != group.protocol:
            error = KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is KafkaErrorCode.NONE and group.state is GroupState.PREPARING:
            error = KafkaErrorCode.REBALANCE_IN_PROGRESS
        if error is not KafkaErrorCode.NONE:
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
                leader_member=group.leader,
                joined=self._joined,
                sent={member.name: member.assignment for member in group.members.values()},
                at_ms=self._clock.now,
            )
        )
        self._answer_syncs(KafkaErrorCode.NONE)

    def _answer_syncs(self, error: KafkaErrorCode) -> None:
        """``propagateAssignment``"""
        for member in list(self._group.members.values()):
            if member.sync is not None:
                member.answer_sync(SyncReply(error=error, assignment=member.assignment))
                self._heard(member)

    # ---- Heartbeat, sessions

    def heartbeat(self, member_id: MemberId, instance_id: str | None, generation: GenerationId) -> KafkaErrorCode:
        """``classicGroupHeartbeatToClassicGroup``"""
        error = self._group.validate_generation(member_id, instance_id, generation)
        if error is not KafkaErrorCode.NONE:
            return error
        self._heard(self._group.members[member_id])
        if self._group.state is GroupState.PREPARING:
            return KafkaErrorCode.REBALANCE_IN_PROGRESS
        return KafkaErrorCode.NONE

    def _heard(self, member: Member, timeout_ms: int | None = None) -> None:
        """``rescheduleClassicGroupMemberHeartbeat``"""
        if member.session is not None:
            member.session.cancel()
        member.session = self._clock.after(
            member.session_timeout_ms if timeout_ms is None else timeout_ms, lambda: self._session_over(member)
        )

    def _session_over(self, member: Member) -> None:
        """``expireClassicGroupMemberHeartbeat``. A member that waits for a join or sync reply needs no heartbeat."""
        if self._group.members.get(member.member_id) is not member:
            return
        if member.is_new or (member.join is None and member.sync is None):
            member.answer_join(JoinReply(error=KafkaErrorCode.UNKNOWN_MEMBER_ID))
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

    def leave(self, member_id: MemberId, instance_id: str | None) -> KafkaErrorCode:
        """``classicGroupLeaveToClassicGroup``; without a member id, the member with the instance id leaves."""
        pending = self._pending.pop(member_id, None)
        if pending is not None:
            pending.cancel()
            self._complete_join_if_all_are_here()
            return KafkaErrorCode.NONE
        if not member_id and instance_id is not None:
            known = self._group.static(instance_id)
            member_id = known.member_id if known is not None else member_id
        error = self._group.validate(member_id, instance_id)
        if error is KafkaErrorCode.NONE:
            member = self._group.members[member_id]
            member.answer_join(JoinReply(error=KafkaErrorCode.UNKNOWN_MEMBER_ID))
            self._remove(member)
            self._after_removal()
        return error
