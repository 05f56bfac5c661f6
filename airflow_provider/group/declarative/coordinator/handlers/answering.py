"""Answers heartbeats: immediately if there is news for the member, or later (a long poll)."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.group.declarative.coordinator.timers import Kind, Timer
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk, Held
from airflow_provider.group.declarative.protocol.model import CurrentAssignment, MemberEpoch, MemberTarget
from airflow_provider.group.declarative.protocol.reconcile import reconcile
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatResponse,
    HeartbeatAssignment,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, Tasks


class _HeldByOthers:
    """The tasks that members other than this one hold; no set of them is built."""

    __slots__ = ("_holders", "_member_id")

    def __init__(self, desk: Desk, member_id: MemberId) -> None:
        self._holders = desk.state.holders
        self._member_id = member_id

    def __contains__(self, task: object) -> bool:
        return self._holders.get(task, self._member_id) != self._member_id  # type: ignore[call-overload, no-any-return]


def take_step(turn: Turn, desk: Desk, member_id: MemberId, owned: Tasks | None) -> None:
    """Move a member one step towards its target."""
    state = desk.state
    before = state.current[member_id]
    after = reconcile(
        before,
        _assignable(turn, desk, state.target.of(member_id)),
        state.target.epoch,
        owned=owned,
        held_by_others=_HeldByOthers(desk, member_id),
    )
    if after is not before:
        turn.give(desk, member_id, after)


def _assignable(turn: Turn, desk: Desk, target: MemberTarget) -> MemberTarget:
    """Leave out of a member's target what must not be assigned from it in a group with a bridge.

    These are tasks that a classic round has taken from the bridge: classic workers may run them before there is another
    target. And tasks that the bridge was given after this target was computed: classic workers have run them in later
    epochs.
    """
    if not turn.has_bridges or (target.tasks <= desk.to_run and target.tasks.isdisjoint(desk.given_in)):
        return target
    made_in = desk.state.target.epoch
    later = frozenset(task for task, epoch in desk.given_in.items() if epoch > made_in)
    return replace(target, tasks=(target.tasks & desk.to_run) - later)


def answer_or_hold(turn: Turn, desk: Desk, member_id: MemberId, heartbeat: Held, *, whole: bool) -> None:
    """Answer a heartbeat immediately, or hold it until there is news or the heartbeat interval is over.

    :param whole: the heartbeat contains all fields, because its member joins or has missed an answer. Then it is
        answered immediately
    """
    has_news = whole or _has_news(desk, member_id, heartbeat.member_epoch)
    release(turn, desk, member_id)  # the member does not wait for that answer any more, so its news must be sent again
    if has_news:
        _answer(turn, desk, member_id, heartbeat)
        return
    desk.held[member_id] = heartbeat
    turn.timers.set(
        Timer(Kind.HELD, desk.state.group_id, member_id), heartbeat.arrived_ms + turn.interval_ms(desk)
    )  # fmt: skip


def look_again(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Take a member's next step, and answer its held heartbeat if that is news for it."""
    held = desk.held.get(member_id)
    if held is None:
        return
    take_step(turn, desk, member_id, None)
    if _has_news(desk, member_id, held.member_epoch):
        release(turn, desk, member_id)


def release(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Answer a member's held heartbeat, if there is one, with the present state."""
    held = _unhold(turn, desk, member_id)
    if held is not None:
        _answer(turn, desk, member_id, held)


def refuse_held(turn: Turn, desk: Desk, member_id: MemberId, error: KafkaErrorCode, message: str) -> None:
    """Answer the held heartbeat of a former member, if there is one, with an error."""
    held = _unhold(turn, desk, member_id)
    if held is not None:
        turn.reply(held.request, ConnectGroupHeartbeatResponse(error_code=error, error_message=message))


def _unhold(turn: Turn, desk: Desk, member_id: MemberId) -> Held | None:
    held = desk.held.pop(member_id, None)
    if held is not None:
        turn.timers.cancel(Timer(Kind.HELD, desk.state.group_id, member_id))
    return held


def _has_news(desk: Desk, member_id: MemberId, member_epoch: MemberEpoch) -> bool:
    if desk.is_chosen(member_id) and desk.computing is not None and not desk.computing.known:
        return True
    return _is_sent(desk, member_epoch) and desk.sent.get(member_id) != _shown(desk.state.current[member_id])


def _shown(current: CurrentAssignment) -> CurrentAssignment:
    """The part of a current assignment that an answer contains."""
    return CurrentAssignment(epoch=current.epoch, assigned=current.assigned, metadata=current.metadata)


def _is_sent(desk: Desk, member_epoch: MemberEpoch) -> bool:
    """Whether an answer contains the assignment: as long as the epoch in the heartbeat is below the target's."""
    return member_epoch < desk.state.target.epoch


def _answer(turn: Turn, desk: Desk, member_id: MemberId, heartbeat: Held) -> None:
    """Answer a heartbeat. COMPUTE_ASSIGNMENT is sent as an error code, but the answer is complete all the same."""
    current = desk.state.current[member_id]
    chosen = desk.is_chosen(member_id)
    if chosen and desk.computing is not None:
        desk.computing.known = True
    sends = _is_sent(desk, heartbeat.member_epoch)
    if sends:
        desk.sent[member_id] = _shown(current)
    turn.grant_session(desk, member_id, heartbeat.arrived_ms)  # it may be longer by now
    turn.reply(
        heartbeat.request,
        ConnectGroupHeartbeatResponse(
            error_code=KafkaErrorCode.COMPUTE_ASSIGNMENT if chosen else KafkaErrorCode.NONE,
            member_epoch=current.epoch,
            heartbeat_interval_ms=turn.interval_ms(desk),
            session_timeout_ms=turn.session_ms(desk),
            assignment=_assignment(desk, current) if sends else None,
        ),
    )


def _assignment(desk: Desk, current: CurrentAssignment) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        error=current.metadata.error or desk.state.target.error,
        connectors_and_tasks=units_of(current.assigned),
        version=current.metadata.version,
        metadata=current.metadata.data,
        assignment_epoch=current.assignment_epoch,
    )
