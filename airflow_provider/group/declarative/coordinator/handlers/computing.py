"""Gets a new target for a group: from a chosen member, or from an assignor of the coordinator.

While the epoch of a group with members is above its target's, one of them is at work, or ``Desk.stuck`` says why not.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.group.declarative.coordinator.assignors.selection import NobodyFits, select
from airflow_provider.group.declarative.coordinator.assignors.server_assignor import voted
from airflow_provider.group.declarative.coordinator.desk import Computing, Desk
from airflow_provider.group.declarative.coordinator.events import RequestArrived
from airflow_provider.group.declarative.coordinator.handlers.installing import (
    installed,
    invalid,
    prepare,
    prepared_reply,
)
from airflow_provider.group.declarative.coordinator.timers import Kind, Timer
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.protocol.model import AWAY, TargetAssignment
from airflow_provider.group.declarative.protocol.wire.messages.install_assignment import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
)
from airflow_provider.group.declarative.protocol.wire.messages.prepare_assignment import (
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
    if state.epoch <= state.target.epoch or not state.members:
        return
    name = _asked_for(desk)
    if name is not None:
        _compute_here(turn, desk, name)
    elif desk.computing is None:
        _choose(turn, desk)


def _compute_here(turn: Turn, desk: Desk, name: str) -> None:
    state, assignor = desk.state, turn.settings.server_assignors.get(name)
    if assignor is None:
        desk.stuck = f"most workers ask for the server side assignor {name!r}, which this coordinator does not have"
        return
    if _is_untaken(desk):
        return
    desk.stuck = None
    wall_ms = turn.now_ms + turn.wall_ahead_ms
    max_delay_ms = state.configuration.scheduled_rebalance_max_delay_ms
    _install(turn, desk, assignor.compute(prepare(state, name), wall_ms, max_delay_ms))


def set_due_timer(turn: Turn, desk: Desk) -> None:
    """Set the timer for the next assignment that is due although nothing has changed.

    It is due when a delay ends that the coordinator's own assignor has started, or some time after an assignor has
    failed.
    """
    state = desk.state
    timer = Timer(Kind.DUE, state.group_id, MemberId(""))
    if state.target.error:
        turn.timers.set(timer, turn.now_ms + _FAILED_AGAIN_MS)
        return
    assignor = turn.settings.server_assignors.get(_asked_for(desk) or "")
    due_ms = assignor.due_at_ms(state.target) if assignor is not None else None
    if due_ms is None:
        turn.timers.cancel(timer)
    else:
        turn.timers.set(timer, due_ms - turn.wall_ahead_ms)


def on_due_timer(turn: Turn, desk: Desk) -> None:
    """Begin an epoch because another assignment is due. If something has changed, one is under way already."""
    state = desk.state
    if state.members and state.epoch <= state.target.epoch and not _is_untaken(desk):
        turn.begin_epoch(desk)
        ensure_target(turn, desk)


def _is_untaken(desk: Desk) -> bool:
    """Whether the coordinator's assignor has already computed a target from this state that no topic takes."""
    if desk.untaken is None or desk.untaken.made_of != desk.made_of:
        return False
    desk.stuck = desk.untaken.why
    return True


def _asked_for(desk: Desk) -> str | None:
    """The server side assignor that the group has voted for, if any."""
    return voted({kind.server_assignor: len(alike) for kind, alike in desk.state.kinds.items()})


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
    _install(turn, desk, installed(request, prepared, desk.state.target))
    ensure_target(turn, desk)


def _install(turn: Turn, desk: Desk, target: TargetAssignment) -> None:
    turn.set_target(desk, target)
    set_due_timer(turn, desk)
    turn.wake_all(desk)


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
