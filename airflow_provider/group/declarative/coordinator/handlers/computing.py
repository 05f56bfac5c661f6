"""Gets a new target for a group from a chosen member.

While the epoch of a group with members is above its target's, one of them is at work, or ``Desk.stuck`` says why not.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.group.declarative.coordinator.assignors.selection import NobodyFits, select
from airflow_provider.group.declarative.coordinator.events import RequestArrived
from airflow_provider.group.declarative.coordinator.handlers.installing import (
    installed,
    invalid,
    prepare,
    prepared_reply,
)
from airflow_provider.group.declarative.coordinator.timers import Kind, Timer
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.coordinator.unrecorded_state import Computing, Desk
from airflow_provider.group.declarative.protocol.model import AWAY
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
)
from airflow_provider.group.declarative.protocol.wire.messages.refusals import refusal
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId

_NOT_PREPARED: Final = "the state that it was computed from is no longer known here: ask for the group's state again"
"""Not the member's mistake: the coordinator has changed since, or a static member was replaced."""
_FAILED_AGAIN_MS: Final = 60_000
"""How long after an assignor's failure another assignment is asked for, from another member if there is one. Without
this pause, a group whose assignor always fails would do nothing else.
"""


def ensure_target(turn: Turn, desk: Desk) -> None:
    """Start to compute a target if the group needs one.

    While a member computes one, no other member is chosen. If the group's epoch grows in the meantime, another target
    is computed afterwards.
    """
    state = desk.state
    if state.epoch > state.target.epoch and state.members and desk.computing is None:
        _choose(turn, desk)


def set_due_timer(turn: Turn, desk: Desk) -> None:
    """Set the timer for another assignment if an assignor has failed; otherwise none is due before a change."""
    state = desk.state
    timer = Timer(Kind.DUE, state.group_id, MemberId(""))
    if state.target.error:
        turn.timers.set(timer, turn.now_ms + _FAILED_AGAIN_MS)
    else:
        turn.timers.cancel(timer)


def on_due_timer(turn: Turn, desk: Desk) -> None:
    """Begin an epoch because another assignment is due. If something has changed, one is under way already."""
    state = desk.state
    if state.members and state.epoch <= state.target.epoch:
        turn.begin_epoch(desk)
        ensure_target(turn, desk)


def on_compute_timer(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Choose another member: the chosen one has not installed an assignment in time."""
    if desk.is_chosen(member_id):
        desk.failed.add(member_id)
        desk.computing = None
        ensure_target(turn, desk)


def on_prepare(turn: Turn, event: RequestArrived, request: ConnectGroupPrepareAssignmentRequest) -> None:
    """Send the chosen member the state from which it computes an assignment."""
    desk = _desk_if_chosen(turn, event, request)
    if desk is None or desk.computing is None:
        return
    prepared = prepare(desk.state, desk.computing.selected.assignor)
    desk.computing.prepared = prepared
    turn.reply(event.request, prepared_reply(desk.state, prepared))


def on_install(turn: Turn, event: RequestArrived, request: ConnectGroupInstallAssignmentRequest) -> None:
    """Install what the chosen member has computed, or refuse it."""
    desk = _desk_if_chosen(turn, event, request)
    if desk is None or desk.computing is None:
        return
    prepared = desk.computing.prepared
    if prepared is None:
        turn.reply(event.request, refusal(request, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _NOT_PREPARED))
        return
    wrong = invalid(request, prepared)
    if wrong is not None:
        turn.reply(event.request, refusal(request, KafkaErrorCode.INVALID_ASSIGNMENT, wrong))
        _let_another_try(turn, desk, request.member_id)
        return
    turn.reply(event.request, ConnectGroupInstallAssignmentResponse())
    turn.timers.cancel(Timer(Kind.COMPUTE, request.group_id, request.member_id))
    desk.computing = None
    desk.last_computed = None if request.error else request.member_id
    desk.failed = {request.member_id} if request.error else set()
    turn.set_target(desk, installed(request, prepared, desk.state.target))
    set_due_timer(turn, desk)
    turn.wake_all(desk)
    ensure_target(turn, desk)


def _choose(turn: Turn, desk: Desk) -> None:
    state = desk.state
    absent = {member_id for member_id in state.members if state.current[member_id].epoch == AWAY}
    chosen = select(state.members, last=desk.last_computed, failed=desk.failed | absent)
    if isinstance(chosen, NobodyFits):
        desk.stuck = chosen.reason
        return
    desk.stuck = None
    desk.computing = Computing(chosen)
    rebalance_timeout_ms = state.members[chosen.member_id].rebalance_timeout_ms
    turn.timers.set(Timer(Kind.COMPUTE, state.group_id, chosen.member_id), turn.now_ms + rebalance_timeout_ms)
    turn.wake(desk, chosen.member_id)


def _let_another_try(turn: Turn, desk: Desk, member_id: MemberId) -> None:
    """Choose another member after an invalid assignment.

    If there is none, this member may try again, but only when its time is over: now it would compute the same.
    """
    desk.failed.add(member_id)
    if desk.failed.issuperset(desk.state.members):
        return
    turn.timers.cancel(Timer(Kind.COMPUTE, desk.state.group_id, member_id))
    desk.computing = None
    ensure_target(turn, desk)


def _desk_if_chosen(
    turn: Turn,
    event: RequestArrived,
    request: ConnectGroupPrepareAssignmentRequest | ConnectGroupInstallAssignmentRequest,
) -> Desk | None:
    """The group's desk, if the request is from the chosen member in its present epoch.

    These are the first four steps of *prepare* and of *install*. None: the request was refused, and is answered.
    """
    desk = turn.desks.get(request.group_id)
    member_id = request.member_id
    if desk is None or not desk.state.epoch:
        error, message = KafkaErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}"
    elif member_id not in desk.state.members:
        error, message = KafkaErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not in the group {request.group_id}"
    elif desk.state.current[member_id].epoch != request.member_epoch:
        error = KafkaErrorCode.FENCED_MEMBER_EPOCH
        message = f"{member_id} is in epoch {desk.state.current[member_id].epoch}, not in {request.member_epoch}"
    elif not desk.is_chosen(member_id):
        error, message = KafkaErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not chosen to compute an assignment"
    else:
        return desk
    turn.reply(event.request, refusal(request, error, message))
    return None
