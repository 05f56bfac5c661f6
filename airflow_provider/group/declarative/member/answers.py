"""How a member reacts to the answer to a heartbeat: a table of error codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from airflow_provider.group.declarative.member import assigning
from airflow_provider.group.declarative.member.events import HeartbeatAnswered, OnAssignment, Request, RequestFailed
from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.declarative.member.transition import Transition
from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatResponse,
    HeartbeatAssignment,
)
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import Warn
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch

_OR_CLASSIC: Final = "or give all workers of the group group_protocol='classic'"

_HINTS: Final = {
    KafkaErrorCode.GROUP_AUTHORIZATION_FAILED: "the user of this connection needs the right READ on the group",
    KafkaErrorCode.INVALID_GROUP_ID: "this is not a valid name of a group",
    KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL: f"stop those first, {_OR_CLASSIC}",
    KafkaErrorCode.INVALID_REQUEST: "worker and coordinator do not understand each other: use the same release for"
    f" both, {_OR_CLASSIC}",
    KafkaErrorCode.UNSUPPORTED_ASSIGNOR: "the group's members share no assignor with this worker, or the coordinator"
    " does not have the one that it asks for: use the same release and the same assignors for all workers of the group",
    KafkaErrorCode.UNSUPPORTED_VERSION: "declarative groups are switched off in the coordinators of this cluster:"
    f" switch them on there, {_OR_CLASSIC}",
    KafkaErrorCode.GROUP_MAX_SIZE_REACHED: "the coordinator limits the number of members",
}

Reaction = Callable[[Transition, HeartbeatAnswered], None]


def on_heartbeat_answered(member: Transition, event: HeartbeatAnswered) -> None:
    """React to the awaited answer. Ignore one that comes late, or twice."""
    if event.seq != member.state.awaiting:
        return
    member.set(awaiting=None)
    error = KafkaErrorCode(event.reply.error_code)
    REACTIONS.get(error, _on_other_error)(member, event)


def on_request_failed(member: Transition, event: RequestFailed) -> None:
    """Try again after a request without an answer. The coordinator may not have got it, so the next heartbeat contains
    all fields.
    """
    if event.request is not Request.HEARTBEAT:
        assigning.on_failed(member, event)
    elif event.seq == member.state.awaiting:
        member.retry_later()


# ---- the reactions


def accept(member: Transition, event: HeartbeatAnswered) -> None:
    """Take over the epoch and the assignment of an answer: this member is in the group."""
    state, reply = member.state, event.reply
    before = (state.phase, state.epoch, state.assigned)
    member.set(
        attempts=0,
        epoch=reply.member_epoch,
        session_timeout_ms=max(0, reply.session_timeout_ms),
        heartbeat_interval_ms=max(0, reply.heartbeat_interval_ms),
    )
    member.renew_lease(event.sent_at_ms)
    if state.phase is Phase.JOINING:
        _on_joined(member)
    if member.state.phase is Phase.STABLE:
        if reply.assignment is not None:
            _take_assignment(member, reply.assignment, event)
        elif state.assignment_epoch < reply.member_epoch:
            member.set(assignment_epoch=Epoch(reply.member_epoch))
        if before != (state.phase, member.state.epoch, member.state.assigned):
            member.publish(member.state.assignment_epoch)
        member.take_back()
        member.start_held()
        assigning.begin_if_wanted(member)
    # The next heartbeat is sent immediately after news, so that the coordinator has one to hold and can answer as soon
    # as there is more: after a new target, when its tasks are released; while this member computes, when its own target
    # is installed.
    news = (
        before != (member.state.phase, member.state.epoch, member.state.assigned)
        or state.assignment_epoch != member.state.assignment_epoch
        or state.assigning is not member.state.assigning
    )
    _next_heartbeat(member, event, news=news)


def _on_joined(member: Transition) -> None:
    """Note that the member has joined. The coordinator now fences a process that had this name, so that one's lease
    ends within a session.
    """
    member.set(phase=Phase.STABLE)
    if member.state.predecessor is Predecessor.UNKNOWN:
        member.set(predecessor=Predecessor.GONE, hold_until=member.now + member.state.session_timeout_ms, said=None)


def _take_assignment(member: Transition, assignment: HeartbeatAssignment, event: HeartbeatAnswered) -> None:
    """Take over an assignment, which names all tasks that the member may have.

    It stops the tasks that are not named, or else starts new ones. It never does both: new tasks wait until the others
    have stopped. Tasks that were released since the heartbeat was sent may still be named, but are not started again:
    they have ended, or the next assignment moves them.
    """
    state = member.state
    told = tasks_of(assignment.connectors_and_tasks)
    if assignment.error:
        member.do(
            Warn(message=f"the group's assignor failed with its error {assignment.error}; the assignment is unchanged")
        )
    epoch = max(assignment.assignment_epoch, event.reply.member_epoch, state.assignment_epoch)
    member.set(assigned=told, assignment_epoch=Epoch(epoch), needed_offset=event.needed_offset, said=None)
    revoked = state.owned - told
    member.stop(revoked, StopReason.REVOKED)
    member.hold(told - state.owned - state.just_released)
    if revoked:
        member.set(acknowledges=True)
    else:
        member.do(OnAssignment(assignment=assignment))


def _next_heartbeat(member: Transition, event: HeartbeatAnswered, *, news: bool) -> None:
    """Set the time of the next heartbeat. After news it is sent immediately: it acknowledges them, and the coordinator
    can hold it until there are more. While revoked tasks still stop, there is nothing to acknowledge.
    """
    at = event.sent_at_ms + member.state.interval_ms
    member.set(heartbeat_at=max(member.now, at))
    if member.state.phase is not Phase.STABLE:
        return
    if member.state.acknowledges:
        member.acknowledge()
    elif news and not member.state.revoked:
        member.hurry()


def _compute(member: Transition, event: HeartbeatAnswered) -> None:
    """Start to compute an assignment. The answer counts like any other, unless it has nothing but the error."""
    if member.state.phase is not Phase.LEAVING:
        assigning.chosen(member)
    if event.reply.session_timeout_ms > 0:
        accept(member, event)
    else:
        assigning.begin_if_wanted(member)
        _next_heartbeat(member, event, news=False)


def _abandon(member: Transition, _event: HeartbeatAnswered) -> None:
    member.abandon()


def _retry(member: Transition, _event: HeartbeatAnswered) -> None:
    member.retry_later()


def _fenced(member: Transition, _event: HeartbeatAnswered) -> None:
    settings = member.state.settings
    member.end(
        Phase.FENCED,
        StopReason.FENCED,
        f"another process joined group {settings.group_id!r} as {settings.worker!r}: two must not share that name",
    )


def _refused(member: Transition, event: HeartbeatAnswered) -> None:
    settings, reply = member.state.settings, event.reply
    error = KafkaErrorCode(reply.error_code)
    member.end(
        Phase.FAILED,
        StopReason.FAILED,
        f"{Request.HEARTBEAT.value} of {settings.worker!r} in group {settings.group_id!r} was refused:"
        f" {error.name} ({_why(reply, error)})",
    )


def _why(reply: ConnectGroupHeartbeatResponse, error: KafkaErrorCode) -> str:
    hint = _HINTS.get(error, "the coordinator's log may tell more")
    return f"{reply.error_message}; {hint}" if reply.error_message else hint


def _on_other_error(member: Transition, event: HeartbeatAnswered) -> None:
    """React to an error that is not in the table: a member of the group tries again while its lease lasts. One that
    joins fails, because it would try for ever.
    """
    (_refused if member.state.phase is Phase.JOINING else _retry)(member, event)


REACTIONS: Final[Mapping[KafkaErrorCode, Reaction]] = {
    KafkaErrorCode.NONE: accept,
    KafkaErrorCode.COMPUTE_ASSIGNMENT: _compute,
    KafkaErrorCode.UNKNOWN_MEMBER_ID: _abandon,
    KafkaErrorCode.FENCED_MEMBER_EPOCH: _abandon,
    KafkaErrorCode.FENCED_INSTANCE_ID: _fenced,
    KafkaErrorCode.UNRELEASED_INSTANCE_ID: _retry,
    KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _retry,
    KafkaErrorCode.COORDINATOR_NOT_AVAILABLE: _retry,
    KafkaErrorCode.NOT_COORDINATOR: _retry,
    KafkaErrorCode.NETWORK_EXCEPTION: _retry,
    KafkaErrorCode.REQUEST_TIMED_OUT: _retry,
    KafkaErrorCode.UNKNOWN_SERVER_ERROR: _retry,
    KafkaErrorCode.UNSUPPORTED_ASSIGNOR: _refused,
    KafkaErrorCode.INVALID_REQUEST: _refused,
    KafkaErrorCode.INVALID_GROUP_ID: _refused,
    KafkaErrorCode.UNSUPPORTED_VERSION: _refused,
    KafkaErrorCode.GROUP_AUTHORIZATION_FAILED: _refused,
    KafkaErrorCode.GROUP_MAX_SIZE_REACHED: _refused,
    KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL: _refused,
}
