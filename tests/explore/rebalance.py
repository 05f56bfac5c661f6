"""The two barriers of a rebalance at the coordinator: all have joined, all have asked for their assignment."""

from __future__ import annotations

from typing import NamedTuple

from explore.group import Group, GroupState, Member
from explore.values import AWAITED, NOW, SETTINGS, Flight, Way, is_heard

from airflow_provider.group.classic.member.events import Joined, JoinedMember, Request, RequestRejected, Synced
from airflow_provider.group.machine.events import Event
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, SubProtocol

SESSION_AT = NOW + SETTINGS.session_timeout_ms
BARRIER_AT = NOW + SETTINGS.rebalance_timeout_ms


class Taken(NamedTuple):
    """The result of a request or a timer.

    :param answers: the answers and their receivers
    :param stored: the record of the round, if its assignment was accepted
    """

    group: Group
    answers: tuple[Flight, ...] = ()
    stored: ClassicRecord | None = None


class Rebalance:
    """The group while it handles a request or a timer."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.answers: list[Flight] = []
        self.stored: ClassicRecord | None = None

    def taken(self) -> Taken:
        return Taken(self.group, tuple(self.answers), self.stored)

    # ---- answers

    def _answer(self, mark: str, event: Event) -> None:
        if is_heard(mark):
            self.answers.append(Flight(Way.ANSWER, mark, AWAITED, event))

    def _reject(self, mark: str, request: Request, error: KafkaErrorCode) -> None:
        self._answer(mark, RequestRejected(now_ms=NOW, seq=AWAITED, request=request, error=error))

    def _answer_join(self, member: Member, error: KafkaErrorCode) -> Member:
        """A waiting process gets an error."""
        if member.join is not None:
            self._reject(member.join, Request.JOIN, error)
        return member._replace(join=None)

    def _answer_sync(self, member: Member, error: KafkaErrorCode) -> Member:
        if member.sync is None:
            return member
        if error is KafkaErrorCode.NONE:
            self._answer(member.sync, Synced(now_ms=NOW, seq=AWAITED, assignment=member.assignment))
        else:
            self._reject(member.sync, Request.SYNC, error)
        return member._replace(sync=None)

    def _answer_generation(self, member: Member, *, skip_assignment: bool) -> None:
        group = self.group
        assert group.leader is not None
        assert member.join is not None
        leads = group.leader == member.member_id
        members = tuple(
            JoinedMember(
                member_id=each.member_id, instance_id=each.worker, metadata=dict(each.protocols)[group.protocol]
            )
            for each in group.members
        )
        self._answer(
            member.join,
            Joined(
                now_ms=NOW,
                seq=AWAITED,
                generation=group.generation,
                protocol=SubProtocol(group.protocol),
                leader=group.leader,
                member_id=member.member_id,
                skip_assignment=skip_assignment,
                members=members if leads else (),
            ),
        )
        self.group = group.put(member._replace(join=None))

    # ---- the two barriers

    def _rebalance_or_complete(self) -> None:
        if self.group.state is GroupState.PREPARING:
            self._complete_if_all_joined()
        else:
            self._prepare()

    def _prepare(self) -> None:
        if self.group.state is GroupState.COMPLETING:
            for member in self.group.members:
                self.group = self.group.put(member._replace(assignment=b""))
            self._answer_syncs(KafkaErrorCode.REBALANCE_IN_PROGRESS)
        initial = self.group.state is GroupState.EMPTY
        self.group = self.group._replace(
            state=GroupState.PREPARING,
            not_synced=frozenset(),
            sync_at=None,
            initial=initial,
            join_at=NOW if initial else BARRIER_AT,
        )
        if not initial and self._all_joined():
            self.join_barrier()

    def _all_joined(self) -> bool:
        return all(member.join is not None for member in self.group.members)

    def _complete_if_all_joined(self) -> None:
        group = self.group
        if group.state is GroupState.PREPARING and not group.initial and self._all_joined():
            self.join_barrier()

    def join_barrier(self) -> None:
        """Static members that did not join stay, with their last metadata."""
        group = self.group
        joined = [member.member_id for member in group.members if member.join is not None]
        if group.members and not joined:
            self.group = group._replace(join_at=BARRIER_AT)
            return
        generation = GenerationId(group.generation + 1)
        if not group.members:
            self.group = Group(generation=generation)
            return
        leader = group.leader if group.leader in joined else joined[0]
        self.group = group._replace(
            state=GroupState.COMPLETING,
            generation=generation,
            leader=leader,
            protocol=self._protocol(),
            not_synced=frozenset(member.member_id for member in group.members),
            initial=False,
            join_at=None,
            sync_at=BARRIER_AT,
        )
        for member in self.group.members:
            if member.join is not None:
                self._answer_generation(member, skip_assignment=False)
        for member in self.group.members:
            self.group = self.group.put(member._replace(is_new=False, session_at=SESSION_AT))

    def _protocol(self) -> str:
        """All offer the same protocols, so it is their first choice."""
        return self.group.members[0].protocols[0][0]

    def sync_barrier(self) -> None:
        group = self.group._replace(sync_at=None)
        self.group = group
        if group.state in (GroupState.COMPLETING, GroupState.STABLE) and group.not_synced:
            for member in group.members:
                if member.member_id in group.not_synced:
                    self._remove(member)
            self._prepare()

    def _answer_syncs(self, error: KafkaErrorCode) -> None:
        for member in self.group.members:
            if member.sync is not None:
                self.group = self.group.put(self._answer_sync(member, error)._replace(session_at=SESSION_AT))

    def _remove(self, member: Member) -> None:
        group = self.group
        members = tuple(each for each in group.members if each.worker != member.worker)
        leader = group.leader
        if leader == member.member_id:
            leader = members[0].member_id if members else None
        self.group = group._replace(members=members, leader=leader, not_synced=group.not_synced - {member.member_id})
