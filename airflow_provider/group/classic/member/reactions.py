"""What a member does when a request fails or is refused: a table of requests and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.group.classic.member.events import Request, RequestFailed, RequestRejected
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.classic.member.transition import Transition
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.group_protocol.join_reasons import OTHERS_BEGAN
from airflow_provider.values.model import UNKNOWN_MEMBER_ID, MemberId, SubProtocol

_RECORD_WRITTEN_IN: Final = 20
"""A leader writes its record in a few milliseconds; this fraction of a session is many times as long."""

_HINTS: Final = {
    KafkaErrorCode.GROUP_AUTHORIZATION_FAILED: "the user of this connection needs the right READ on the group",
    KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members share no embedded protocol with this worker, or"
    " it is no group of this kind: compare their connect.protocol settings",
    KafkaErrorCode.INVALID_SESSION_TIMEOUT: "the broker limits it by group.min.session.timeout.ms and"
    " group.max.session.timeout.ms",
    KafkaErrorCode.GROUP_MAX_SIZE_REACHED: "the broker limits it by group.max.size",
    KafkaErrorCode.INVALID_GROUP_ID: "Kafka does not take this as the name of a group",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error with which the coordinator, or the broker that was asked for it, has answered.

    :param member_id: the one to join with, if the error is MEMBER_ID_REQUIRED
    :param sent_at_ms: when the request was sent, for a heartbeat
    """

    request: Request
    error: KafkaErrorCode
    member_id: MemberId = UNKNOWN_MEMBER_ID
    sent_at_ms: int = 0


Reaction = Callable[[Transition, Refusal], None]


def react(member: Transition, refusal: Refusal) -> None:
    """React as the table says."""
    reaction = REACTIONS[refusal.request].get(refusal.error, OTHERWISE[refusal.request])
    reaction(member, refusal)


def on_request_rejected(member: Transition, event: RequestRejected) -> None:
    if event.seq == member.state.awaiting:
        react(member, Refusal(event.request, event.error, member_id=event.member_id))


def on_rejected_while_leaving(member: Transition, event: RequestRejected) -> None:
    """While a member leaves, a refused FindCoordinator is handled like a refused LeaveGroup."""
    if event.seq == member.state.awaiting:
        react(member, Refusal(Request.LEAVE, event.error))


def on_request_failed(member: Transition, event: RequestFailed) -> None:
    """Look for the coordinator again, as no answer came."""
    state = member.state
    if event.request is Request.HEARTBEAT:
        _on_heartbeat_failed(member, event)
        return
    if event.seq != state.awaiting:
        return
    if event.request is Request.JOIN and state.member_id == UNKNOWN_MEMBER_ID:
        # Another process may have taken this name since. The next try takes it back.
        member.set(predecessor=Predecessor.UNKNOWN)
    begin_again(member)


def _on_heartbeat_failed(member: Transition, event: RequestFailed) -> None:
    """A heartbeat that was sent after a JoinGroup is lost, so that may be lost, too. Sending it again does no harm."""
    state = member.state
    if state.phase is Phase.PREPARING_REBALANCE and state.awaiting is not None and event.seq > state.awaiting:
        begin_again(member)
    else:
        _look_again(member)


# ---- the reactions


def begin_again(member: Transition, _refusal: Refusal | None = None) -> None:
    """Look for the coordinator after a while, and give up the rebalance in which this member takes part."""
    member.retry_later()
    state = member.state
    if state.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        member.set(phase=Phase.UNJOINED, rejoin_reason=state.rejoin_reason or state.join_reason)
        member.forget_round()
        member.limit_patience()


def _take_member_id(member: Transition, refusal: Refusal) -> None:
    member.set(member_id=refusal.member_id)
    member.send_join(member.state.join_reason)


def _unknown(member: Transition, _refusal: Refusal) -> None:
    if member.state.phase is Phase.LEAVING:
        member.set(lease_until=None)
    else:
        member.expelled("the coordinator did not know the member")


def _overtaken(member: Transition, _refusal: Refusal) -> None:
    """Join another rebalance that has begun before this member had its assignment.

    It joins immediately, for the same reason as before: nothing has been done about it. But if the group has just
    returned to the eager protocol, it may still have tasks from before, and stops them first.
    """
    why = member.state.join_reason
    if member.state.protocol is SubProtocol.DEFAULT:
        member.set(phase=Phase.UNJOINED, awaiting=None)
        member.forget_round()
        member.want_join(why)
    else:
        member.send_join(why)


def _fenced(member: Transition, _refusal: Refusal) -> None:
    """End, as another process has taken the name. Or take the name back, if the coordinator may have forgotten this
    member.

    A coordinator stores a member only when a round is completed. So a new coordinator may know the process that had the
    name before. A member that has not completed a round, nor heard that it is in the group, then joins again.
    """
    if member.state.may_be_forgotten and member.state.phase is not Phase.LEAVING:
        why = "the coordinator knows another process under this name, perhaps from before it moved"
        member.expelled(why, Predecessor.UNKNOWN)
        return
    settings = member.state.settings
    member.end(
        Phase.FENCED,
        StopReason.FENCED,
        f"another process joined group {settings.group_id!r} as {settings.worker!r}: two must not share that name",
    )


def _refused(member: Transition, refusal: Refusal) -> None:
    request, error = refusal.request, refusal.error
    settings = member.state.settings
    hint = _HINTS.get(error, "the broker's log may tell more")
    member.end(
        Phase.FAILED,
        StopReason.FAILED,
        f"{request.value} of {settings.worker!r} in group {settings.group_id!r} was refused: {error.name} ({hint})",
    )


def _rebalance_begun(member: Transition, refusal: Refusal) -> None:
    """Join the rebalance of which a heartbeat's answer tells.

    The coordinator waits ``rebalance_timeout_ms`` for this member to join and then continues without it, even if it
    heartbeats. The rebalance began at some time after the last heartbeat that was answered without an error. For this
    member it ends only with the answer to its JoinGroup: one that was sent before may be lost.
    """
    state = member.state
    if state.rebalance_deadline is None:
        member.set(rebalance_deadline=state.heard_at + state.settings.rebalance_lease_ms)
    member.renew_lease(refusal.sent_at_ms)
    if state.phase is Phase.STABLE:
        member.want_join(OTHERS_BEGAN)
        _expect_record_soon(member)
    member.limit_patience()


def _expect_record_soon(member: Transition) -> None:
    """Shorten the wait for the record of the last round to the time that writing one takes: everybody waits for this
    member now, and a leader of Java Connect writes none.
    """
    state = member.state
    if state.record_by is not None:
        soon = member.now + state.settings.session_timeout_ms // _RECORD_WRITTEN_IN
        member.set(record_by=min(state.record_by, max(soon, state.hold_until or 0)))


def _other_generation(member: Transition, _refusal: Refusal) -> None:
    if member.state.phase is Phase.STABLE:
        member.want_join("the group is in another generation")


def _moved(member: Transition, _refusal: Refusal) -> None:
    """A JoinGroup or SyncGroup that waits at a broker that is no longer the coordinator would wait in vain."""
    if member.state.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        begin_again(member)
    else:
        _look_again(member)


def _look_again(member: Transition, _refusal: Refusal | None = None) -> None:
    """Look for the coordinator, unless the answer to a pending request will tell."""
    state = member.state
    if state.phase in (Phase.STABLE, Phase.LEAVING) and state.coordinator is not None and state.awaiting is None:
        member.retry_later()


def _retry_later(member: Transition, _refusal: Refusal) -> None:
    member.retry_later()


def gone(member: Transition, _refusal: Refusal | None = None) -> None:
    """End as a member that has left, as it wanted."""
    member.end(Phase.LEFT, StopReason.LEAVING, error=None)


_COORDINATOR_AWAY: Final[Mapping[KafkaErrorCode, Reaction]] = {
    KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS: begin_again,
    KafkaErrorCode.COORDINATOR_NOT_AVAILABLE: begin_again,
    KafkaErrorCode.NOT_COORDINATOR: begin_again,
    KafkaErrorCode.NETWORK_EXCEPTION: begin_again,
    KafkaErrorCode.REQUEST_TIMED_OUT: begin_again,
    KafkaErrorCode.UNKNOWN_SERVER_ERROR: begin_again,
}

REACTIONS: Final[Mapping[Request, Mapping[KafkaErrorCode, Reaction]]] = {
    Request.FIND_COORDINATOR: _COORDINATOR_AWAY,
    Request.JOIN: {
        **_COORDINATOR_AWAY,
        KafkaErrorCode.MEMBER_ID_REQUIRED: _take_member_id,
        KafkaErrorCode.UNKNOWN_MEMBER_ID: _unknown,
        KafkaErrorCode.FENCED_INSTANCE_ID: _fenced,
        KafkaErrorCode.REBALANCE_IN_PROGRESS: begin_again,
        KafkaErrorCode.ILLEGAL_GENERATION: begin_again,
    },
    Request.SYNC: {
        **_COORDINATOR_AWAY,
        KafkaErrorCode.UNKNOWN_MEMBER_ID: _unknown,
        KafkaErrorCode.FENCED_INSTANCE_ID: _fenced,
        KafkaErrorCode.REBALANCE_IN_PROGRESS: _overtaken,
        KafkaErrorCode.ILLEGAL_GENERATION: _overtaken,
    },
    Request.HEARTBEAT: {
        KafkaErrorCode.REBALANCE_IN_PROGRESS: _rebalance_begun,
        KafkaErrorCode.ILLEGAL_GENERATION: _other_generation,
        KafkaErrorCode.UNKNOWN_MEMBER_ID: _unknown,
        KafkaErrorCode.FENCED_INSTANCE_ID: _fenced,
        KafkaErrorCode.GROUP_AUTHORIZATION_FAILED: _refused,
        KafkaErrorCode.NOT_COORDINATOR: _moved,
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE: _moved,
    },
    Request.LEAVE: {
        KafkaErrorCode.UNKNOWN_MEMBER_ID: gone,
        KafkaErrorCode.FENCED_INSTANCE_ID: gone,
    },
}

OTHERWISE: Final[Mapping[Request, Reaction]] = {
    Request.FIND_COORDINATOR: _refused,
    Request.JOIN: _refused,
    Request.SYNC: _refused,
    Request.HEARTBEAT: _look_again,
    Request.LEAVE: _retry_later,
}
"""The reactions to errors that the table does not name."""
