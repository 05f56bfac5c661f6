"""How the members of a group join, change, replace each other, and leave.

A member that is removed while it may still run tasks is *lingering*: the tasks stay held, by its current assignment
without a member. They become free when its session would have ended, because until then it may believe that they are
its own, or when it joins again and says that it owns nothing. Kafka frees such a member's partitions immediately: its
brokers refuse commits of an old epoch, but nobody could refuse what a Spark task writes.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.events import RequestArrived
from airflow_provider.group.declarative.coordinator.handlers import computing
from airflow_provider.group.declarative.coordinator.handlers.answering import refuse_held
from airflow_provider.group.declarative.coordinator.timers import Kind, Timer
from airflow_provider.group.declarative.coordinator.turn import Turn, next_epoch
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk
from airflow_provider.group.declarative.protocol.model import (
    AWAY,
    JOINING,
    CurrentAssignment,
    Member,
    MemberState,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks


def said(before: Member | None, heartbeat: ConnectGroupHeartbeatRequest, event: RequestArrived) -> Member:
    """What a member has said of itself, with this heartbeat. A field that is left out has not changed; the instance id
    never changes.

    :param before: what it has said before; None: nothing
    """
    member = before or Member(rebalance_timeout_ms=heartbeat.rebalance_timeout_ms, instance_id=heartbeat.instance_id)
    if heartbeat.rebalance_timeout_ms > 0:
        member = replace(
            member,
            rebalance_timeout_ms=heartbeat.rebalance_timeout_ms,
            client_id=event.client_id,
            client_host=event.client_host,
        )
    if heartbeat.client_assignors:
        member = replace(member, client_assignors=heartbeat.client_assignors)
    return member


def join(turn: Turn, desk: Desk, member_id: MemberId, member: Member) -> None:
    """Add a new member. It owns nothing, so tasks that a removed member of this id still holds become free."""
    state = desk.state
    turn.timers.cancel(Timer(Kind.LINGERING, state.group_id, member_id))
    desk.replaced.discard(member_id)
    turn.write(desk, values.member_record(state.group_id, next_epoch(desk), member_id, member))
    turn.give(desk, member_id, CurrentAssignment())
    turn.begin_epoch(desk)
    computing.ensure_target(turn, desk)


def change(turn: Turn, desk: Desk, member_id: MemberId, member: Member) -> None:
    """Record what a member says of itself, if it has changed. A new epoch begins only if an assignment could come out
    differently: if its assignors, their reason or their metadata have changed.
    """
    state = desk.state
    before = state.members[member_id]
    if member == before:
        return
    if assigned_alike(before, member):
        turn.write(desk, values.member_record(state.group_id, state.epoch, member_id, member))
        return
    turn.write(desk, values.member_record(state.group_id, next_epoch(desk), member_id, member))
    turn.begin_epoch(desk)
    computing.ensure_target(turn, desk)


def assigned_alike(one: Member, other: Member) -> bool:
    """Whether an assignor is told the same of both."""
    return one.client_assignors == other.client_assignors


def take_place(turn: Turn, desk: Desk, former: MemberId, member_id: MemberId, member: Member) -> None:
    """Let a static member that returns with another member id take the place of the former one.

    It gets the former member's target. The former member may still run its tasks, unless it has left for a while; then
    they stay held until its session would have ended.
    """
    state = desk.state
    before, had = state.members[former], state.current[former]
    turn.timers.cancel(Timer(Kind.LINGERING, state.group_id, member_id))
    desk.replaced.discard(member_id)
    changed = not assigned_alike(before, member)
    turn.write(desk, values.member_tombstone(state.group_id, former))
    epoch = next_epoch(desk) if changed else state.epoch
    turn.write(desk, values.member_record(state.group_id, epoch, member_id, member))
    if had.epoch == AWAY:
        turn.give(desk, former, None)
        turn.give(desk, member_id, replace(had, epoch=JOINING))
    else:
        _linger(turn, desk, former, had.held, None)
        turn.give(desk, member_id, CurrentAssignment(metadata=had.metadata))
        desk.replaced.add(former)
    if former in state.target.members:
        renamed = {member_id if one == former else one: share for one, share in state.target.members.items()}
        turn.set_target(desk, replace(state.target, members=renamed))
    message = f"{member_id} has the instance id {member.instance_id}"
    _clean_up(turn, desk, former, KafkaErrorCode.FENCED_INSTANCE_ID, message)
    desk.computing = None
    if changed:
        turn.begin_epoch(desk)
    computing.ensure_target(turn, desk)


def come_back(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Let a static member that was away return with the same member id."""
    had = desk.state.current[member_id]
    turn.give(desk, member_id, replace(had, epoch=JOINING))


def leave_for_a_while(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Let a static member leave for a while. It has stopped everything; its tasks are kept until its session ends."""
    had = desk.state.current[member_id]
    if had.epoch != AWAY:
        kept = replace(had, epoch=AWAY, state=MemberState.STABLE, assigned=had.held, revoking=NO_TASKS)
        turn.give(desk, member_id, kept)
    refuse_held(turn, desk, member_id, KafkaErrorCode.UNKNOWN_MEMBER_ID, "it has left for a while")
    desk.forget(member_id)
    computing.ensure_target(turn, desk)


def leave(turn: Turn, desk: Desk, member_id: MemberId, member: Member) -> None:
    """Let a member leave that has stopped everything.

    :param member: what it has said of itself in its last heartbeat, perhaps why it leaves
    """
    error, message = KafkaErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} has left"
    remove(turn, desk, member_id, last_said=member, error=error, message=message)


def remove(
    turn: Turn,
    desk: Desk,
    member_id: MemberId,
    *,
    last_said: Member | None = None,
    error: KafkaErrorCode,
    message: str,
) -> None:
    """Remove a member that runs nothing any more, because it has said so or its session has ended.

    :param last_said: what it has said of itself; None: what is recorded
    :param error: the answer to its held heartbeat, if there is one
    """
    last_said = last_said or desk.state.members[member_id]
    turn.write(desk, values.member_tombstone(desk.state.group_id, member_id))
    turn.keep(desk, member_id, NO_TASKS, last_said)
    _after_removal(turn, desk, member_id, error, message)


def fence(turn: Turn, desk: Desk, member_id: MemberId, *, error: KafkaErrorCode, message: str) -> None:
    """Remove a member that does not know it yet. Its tasks stay held."""
    last_said = desk.state.members[member_id]
    turn.write(desk, values.member_tombstone(desk.state.group_id, member_id))
    _linger(turn, desk, member_id, desk.state.current[member_id].held, last_said)
    _after_removal(turn, desk, member_id, error, message)


def has_ended(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Free the tasks of a lingering member, which runs nothing any more."""
    state = desk.state
    if member_id in state.lingering:
        turn.timers.cancel(Timer(Kind.LINGERING, state.group_id, member_id))
        turn.keep(desk, member_id, NO_TASKS, state.last_said.get(member_id))
    desk.replaced.discard(member_id)


def _linger(turn: Turn, desk: Desk, member_id: MemberId, held: Tasks, last_said: Member | None) -> None:
    """Keep these tasks held by a removed member until its session would have ended."""
    state = desk.state
    turn.keep(desk, member_id, held, last_said)
    if not held:
        return
    ends = turn.timers.at(Timer(Kind.SESSION, state.group_id, member_id))
    assert ends is not None, f"{member_id} is a member of {state.group_id} without a session"
    turn.timers.set(Timer(Kind.LINGERING, state.group_id, member_id), ends)


def _after_removal(turn: Turn, desk: Desk, member_id: MemberId, error: KafkaErrorCode, message: str) -> None:
    state = desk.state
    _clean_up(turn, desk, member_id, error, message)
    turn.begin_epoch(desk)
    if not state.members and state.target.members:
        turn.set_target(desk, TargetAssignment(epoch=state.target.epoch))
    computing.ensure_target(turn, desk)


def _clean_up(turn: Turn, desk: Desk, member_id: MemberId, error: KafkaErrorCode, message: str) -> None:
    """Refuse a former member's held heartbeat, and cancel its timers."""
    group_id = desk.state.group_id
    turn.timers.cancel(Timer(Kind.SESSION, group_id, member_id))
    turn.timers.cancel(Timer(Kind.REBALANCE, group_id, member_id))
    refuse_held(turn, desk, member_id, error, message)
    if desk.is_chosen(member_id):
        turn.timers.cancel(Timer(Kind.COMPUTE, group_id, member_id))
    desk.forget(member_id)
