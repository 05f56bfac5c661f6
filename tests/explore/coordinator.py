"""The rules of Kafka's classic group coordinator, as functions from one group value to the next.

They are the rules of ``simulation/coordinator.py``, which has the Java names in its docstrings: JoinGroup, SyncGroup,
Heartbeat and LeaveGroup of static members, sessions and the two barriers. Left out, besides what is left out there:
other coordinators, members without an instance id, an initial delay, and the five minutes after which a new member
whose rebalance never completes is removed. ``test_coordinator`` compares the two.

Where Java uses the order of a hash map, names are in order here. With two workers there is no choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explore.group import Group, GroupState, Member, validate, validate_generation
from explore.rebalance import SESSION_AT, Rebalance, Taken
from explore.values import AWAITED, NOW, Flight, Join, Sync, Way, is_heard, worker_of

from airflow_provider.group.classic.member.events import (
    HeartbeatAnswered,
    Left,
    Request,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    Synced,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId


def take(group: Group, flight: Flight, fresh: MemberId) -> Taken:
    """Handle a request.

    :param fresh: a new member id
    """
    turn, mark = _Coordinator(group), flight.mark
    match flight.what:
        case Join() as asked:
            turn.join(mark, asked.command, fresh)
        case Sync() as asked:
            turn.sync(mark, asked)
        case SendHeartbeat():
            turn.heartbeat(mark, flight)
        case SendLeave() as command:
            turn.leave(mark, command)
    return turn.taken()


def timers(group: Group) -> Iterator[tuple[int, str]]:
    """The due times of sessions, by worker, and of barriers, by their names."""
    for member in group.members:
        if member.session_at is not None:
            yield member.session_at, member.worker
    if group.join_at is not None:
        yield group.join_at, "join"
    if group.sync_at is not None:
        yield group.sync_at, "sync"


def fire(group: Group, timer: str) -> Taken:
    """Handle a due timer."""
    turn = _Coordinator(group)
    if timer == "join":
        turn.join_barrier()
    elif timer == "sync":
        turn.sync_barrier()
    else:
        turn.session_over(timer)
    return turn.taken()


class _Coordinator(Rebalance):
    """The group while it handles a request or a timer."""

    # ---- JoinGroup

    def join(self, mark: str, command: SendJoin, fresh: MemberId) -> None:
        """:param fresh: a new member id"""
        group, worker = self.group, worker_of(mark)
        if command.member_id:
            self._join_existing(mark, worker, command)
            return
        old = group.static(worker)
        if old is None:
            leader = group.leader if group.leader is not None else fresh
            new = Member(member_id=fresh, worker=worker, protocols=command.protocols, join=mark)
            self.group = group._replace(leader=leader).put(new)
            self._rebalance_or_complete()
        else:
            self._replace_static(old, mark, command, fresh)

    def _replace_static(self, old: Member, mark: str, command: SendJoin, fresh: MemberId) -> None:
        old = self._answer_sync(
            self._answer_join(old, KafkaErrorCode.FENCED_INSTANCE_ID), KafkaErrorCode.FENCED_INSTANCE_ID
        )
        member = old._replace(member_id=fresh, protocols=command.protocols, join=mark, session_at=SESSION_AT)
        leader = fresh if self.group.leader == old.member_id else self.group.leader
        self.group = group = self.group._replace(leader=leader).put(member)
        if group.state is GroupState.STABLE and self._protocol() == group.protocol:
            self._answer_generation(member, skip_assignment=leader == fresh)
        elif group.state is GroupState.PREPARING:
            self._complete_if_all_joined()
        else:
            self._prepare()

    def _join_existing(self, mark: str, worker: str, command: SendJoin) -> None:
        group = self.group
        error = validate(group, worker, command.member_id)
        if error is KafkaErrorCode.NONE and group.state is GroupState.EMPTY:
            error = KafkaErrorCode.UNKNOWN_MEMBER_ID
        if error is not KafkaErrorCode.NONE:
            self._reject(mark, Request.JOIN, error)
            return
        member = group.with_id(command.member_id)
        assert member is not None
        unchanged = member.protocols == command.protocols
        follower = group.leader != member.member_id
        member = member._replace(protocols=command.protocols, join=mark)
        self.group = group.put(member)
        if unchanged and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and follower)):
            self._answer_generation(member, skip_assignment=False)
        else:
            self._rebalance_or_complete()

    # ---- SyncGroup

    def sync(self, mark: str, asked: Sync) -> None:
        group, worker, command = self.group, worker_of(mark), asked.command
        error = validate_generation(group, worker, command.member_id, command.generation)
        if error is KafkaErrorCode.NONE and command.protocol.value != group.protocol:
            error = KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is KafkaErrorCode.NONE and group.state is GroupState.PREPARING:
            error = KafkaErrorCode.REBALANCE_IN_PROGRESS
        if error is not KafkaErrorCode.NONE:
            self._reject(mark, Request.SYNC, error)
            return
        member = group.with_id(command.member_id)
        assert member is not None
        not_synced = group.not_synced - {member.member_id}
        self.group = group = group._replace(not_synced=not_synced, sync_at=group.sync_at if not_synced else None)
        if group.state is GroupState.STABLE:
            self._answer(mark, Synced(now_ms=NOW, seq=AWAITED, assignment=member.assignment))
            return
        self.group = group.put(member._replace(sync=mark))
        if member.member_id == group.leader:
            self._store(asked)

    def _store(self, asked: Sync) -> None:
        assignments: Mapping[MemberId, bytes] = asked.command.assignments
        self.group = self.group._replace(state=GroupState.STABLE)
        for member in self.group.members:
            self.group = self.group.put(member._replace(assignment=assignments.get(member.member_id, b"")))
        self.stored = asked.record
        self._answer_syncs(KafkaErrorCode.NONE)

    # ---- Heartbeat, sessions

    def _heard(self, worker: str) -> None:
        member = self.group.static(worker)
        assert member is not None
        self.group = self.group.put(member._replace(session_at=SESSION_AT))

    def heartbeat(self, mark: str, flight: Flight) -> None:
        group, worker, command = self.group, worker_of(mark), flight.what
        error = validate_generation(group, worker, command.member_id, command.generation)
        if error is KafkaErrorCode.NONE:
            self._heard(worker)
            if group.state is GroupState.PREPARING:
                error = KafkaErrorCode.REBALANCE_IN_PROGRESS
        if not is_heard(mark):
            return
        assert flight.sent_at is not None
        answered = HeartbeatAnswered(
            now_ms=NOW,
            sent_at_ms=flight.sent_at,
            member_id=command.member_id,
            generation=command.generation,
            error=error,
        )
        self.answers.append(Flight(Way.ANSWER, mark, flight.seq, answered))

    def session_over(self, worker: str) -> None:
        """A member that waits for a join or sync reply needs no heartbeat."""
        member = self.group.static(worker)
        assert member is not None
        self.group = self.group.put(member._replace(session_at=None))
        if member.is_new or (member.join is None and member.sync is None):
            self._remove(self._answer_join(member, KafkaErrorCode.UNKNOWN_MEMBER_ID))
            self._after_removal()

    def _after_removal(self) -> None:
        if self.group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare()
        else:
            self._complete_if_all_joined()

    # ---- LeaveGroup

    def leave(self, mark: str, command: SendLeave) -> None:
        worker, member_id = worker_of(mark), command.member_id
        if not member_id:
            known = self.group.static(worker)
            member_id = known.member_id if known is not None else member_id
        error = validate(self.group, worker, member_id)
        if error is not KafkaErrorCode.NONE:
            self._reject(mark, Request.LEAVE, error)
            return
        member = self.group.with_id(member_id)
        assert member is not None
        self._remove(self._answer_join(member, KafkaErrorCode.UNKNOWN_MEMBER_ID))
        self._after_removal()
        self._answer(mark, Left(now_ms=NOW, seq=AWAITED))
