"""How a member gets into a rebalance and out of it with an assignment."""

from __future__ import annotations

from airflow_provider.membership.causes import STARTS
from airflow_provider.membership.events import (
    AssignmentComputed,
    CoordinatorFound,
    Joined,
    PerformAssignment,
    PublishGroup,
    RecordRead,
    Request,
    RequestFailed,
    RequestRejected,
    Resumed,
    Started,
    Synced,
    Warn,
)
from airflow_provider.membership.record import epoch_of
from airflow_provider.membership.state import Phase
from airflow_provider.membership.transition import Transition
from airflow_provider.protocol.embedded import CODECS
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import (
    NO_TASKS,
    UNKNOWN_MEMBER_ID,
    Assignment,
    AssignmentError,
    Epoch,
    MalformedEmbeddedError,
    SubProtocol,
)

_COORDINATOR_ERRORS = frozenset(
    {
        KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
        KafkaErrorCode.NOT_COORDINATOR,
        KafkaErrorCode.NETWORK_EXCEPTION,
        KafkaErrorCode.REQUEST_TIMED_OUT,
        KafkaErrorCode.UNKNOWN_SERVER_ERROR,
    }
)

_OVERTAKEN = frozenset({KafkaErrorCode.REBALANCE_IN_PROGRESS, KafkaErrorCode.ILLEGAL_GENERATION})
_ANOTHER = "another rebalance has begun"

_HINTS = {
    KafkaErrorCode.GROUP_AUTHORIZATION_FAILED: "the user of this connection needs the right READ on the group",
    KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members share no embedded protocol with this worker, or"
    " it is no group of this kind: compare their connect.protocol settings",
    KafkaErrorCode.INVALID_SESSION_TIMEOUT: "the broker limits it by group.min.session.timeout.ms and"
    " group.max.session.timeout.ms",
    KafkaErrorCode.GROUP_MAX_SIZE_REACHED: "the broker limits it by group.max.size",
    KafkaErrorCode.INVALID_GROUP_ID: "Kafka does not take this as the name of a group",
}


def on_started(member: Transition, event: Started) -> None:
    member.set(
        phase=Phase.UNJOINED,
        config_offset=event.config_offset,
        predecessor=event.predecessor,
        rejoin_reason=STARTS,
    )
    member.find_coordinator()


def on_resumed(member: Transition, event: Resumed) -> None:
    """Go on as the same member. Nothing runs here yet; all that is owned waits for a valid lease.

    Without a member id there is nobody to speak for yet: a coordinator that has taken in the JoinGroup by then would
    take a heartbeat for that of another process under this worker's name. Who is about to join a rebalance starts
    nothing before it has its assignment: an answer that the process before has not heard may say that the group has
    gone back to the eager protocol, in which others are given what is not reported. And who is about to join an eager
    rebalance owns nothing: what the process before had not started, others are given in it.
    """
    state = member.state
    known = state.member_id != UNKNOWN_MEMBER_ID and state.generation == state.last_completed
    joins = state.rejoin_reason is not None or not known
    owned = NO_TASKS if joins and state.protocol is SubProtocol.DEFAULT else state.owned
    if state.member_id == UNKNOWN_MEMBER_ID and event.predecessor is Predecessor.UNKNOWN:
        member.set(predecessor=Predecessor.UNKNOWN)
    member.set(
        phase=Phase.UNJOINED if joins else Phase.STABLE,
        config_offset=event.config_offset,
        owned=owned,
        held=owned,
        rejoin_reason=state.rejoin_reason or (None if known else "a worker goes on in another process"),
    )
    if state.member_id != UNKNOWN_MEMBER_ID:
        member.heartbeat_fast()
    member.find_coordinator()
    member.start_held()


def on_coordinator_found(member: Transition, event: CoordinatorFound) -> None:
    if event.seq != member.state.awaiting:
        return
    member.set(awaiting=None, coordinator=event.node)
    if member.state.phase is Phase.STABLE:
        member.send_heartbeat()
    member.join_when_ready()


def on_request_failed(member: Transition, event: RequestFailed) -> None:
    """No answer: look for the coordinator again."""
    state = member.state
    if event.request is Request.HEARTBEAT:
        _on_heartbeat_failed(member, event)
        return
    if event.seq != state.awaiting:
        return
    if event.request is Request.JOIN and state.member_id == UNKNOWN_MEMBER_ID:
        # Another process may have taken this name since, and with the next try this one takes it back.
        member.set(predecessor=Predecessor.UNKNOWN)
    begin_again(member)


def _on_heartbeat_failed(member: Transition, event: RequestFailed) -> None:
    """A heartbeat sent after a JoinGroup and lost: so may that one be. To send it again does no harm."""
    state = member.state
    if state.phase is Phase.PREPARING_REBALANCE and state.awaiting is not None and event.seq > state.awaiting:
        begin_again(member)
    elif state.phase in (Phase.STABLE, Phase.LEAVING) and state.coordinator is not None and state.awaiting is None:
        member.retry_later()


def on_request_rejected(member: Transition, event: RequestRejected) -> None:
    state = member.state
    if event.seq != state.awaiting:
        return
    error = event.error
    if error in _COORDINATOR_ERRORS:
        begin_again(member)
    elif event.request is Request.FIND_COORDINATOR:
        refused(member, event.request, error)
    elif error is KafkaErrorCode.MEMBER_ID_REQUIRED:
        member.set(member_id=event.member_id)
        member.send_join(state.join_reason)
    elif error is KafkaErrorCode.UNKNOWN_MEMBER_ID:
        member.expelled("the coordinator did not know the member")
    elif error is KafkaErrorCode.FENCED_INSTANCE_ID:
        fenced(member)
    elif error in _OVERTAKEN and event.request is Request.SYNC:
        _overtaken(member)
    elif error in _OVERTAKEN:
        begin_again(member)
    else:
        refused(member, event.request, error)


def _overtaken(member: Transition) -> None:
    """Another rebalance has begun before this member had its assignment. It joins that at once; but in a group that has
    just gone back to the eager protocol it may have tasks from before, and stops them first.
    """
    if member.state.protocol is SubProtocol.DEFAULT:
        member.set(phase=Phase.UNJOINED, awaiting=None)
        member.forget_round()
        member.want_join(_ANOTHER)
    else:
        member.send_join(_ANOTHER)


def begin_again(member: Transition) -> None:
    """Look for the coordinator after a while. A rebalance in which this member takes part is lost to it."""
    member.retry_later()
    state = member.state
    if state.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        member.set(phase=Phase.UNJOINED, rejoin_reason=state.rejoin_reason or state.join_reason)
        member.forget_round()
        member.limit_patience()


def fenced(member: Transition) -> None:
    """Another process has taken the name. Or the coordinator has moved: it keeps a member only when a round is
    completed, and so it may have forgotten this one, and know the process that had the name before. Who has not
    completed a round yet takes the name again then, as long as it has not heard that it is in the group.
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


def refused(member: Transition, request: Request, error: KafkaErrorCode) -> None:
    settings = member.state.settings
    hint = _HINTS.get(error, "the broker's log may tell more")
    member.end(
        Phase.FAILED,
        StopReason.FAILED,
        f"{request.value} of {settings.worker!r} in group {settings.group_id!r} was refused: {error.name} ({hint})",
    )


def on_joined(member: Transition, event: Joined) -> None:
    """The generation is known; the coordinator waits for everybody's SyncGroup as long as it did for their joins.

    Who joins again as the same member, since no answer came, may be told of a generation that was complete before: then
    the coordinator has waited since, and the JoinGroup has not begun another session. A member that is new to it has.

    Its leader computes the assignment, unless the coordinator tells it to skip that
    (KIP-814: a static leader came back to a stable group); everybody asks for theirs.
    """
    if event.seq != member.state.awaiting:
        return
    anew = event.member_id != member.state.member_id
    since = member.state.join_sent_at if member.state.joining_since is None else member.state.joining_since
    deadline = since + member.state.settings.rebalance_lease_ms
    if event.generation == member.state.generation and member.state.rebalance_deadline is not None:
        deadline = min(deadline, member.state.rebalance_deadline)
    member.set(
        phase=Phase.COMPLETING_REBALANCE,
        joining_since=None,
        rebalance_deadline=deadline,
        member_id=event.member_id,
        generation=event.generation,
        leader=event.leader,
        protocol=event.protocol,
    )
    if member.state.predecessor is Predecessor.UNKNOWN:
        # From now on the coordinator fences the process that had this name: its lease ends within a session.
        member.set(predecessor=Predecessor.GONE, hold_until=member.now + member.state.settings.session_timeout_ms)
    member.set(heard_at=max(member.state.heard_at, member.state.join_sent_at))
    if anew:
        member.renew_lease(member.state.join_sent_at)
    member.heartbeat_slowly()
    seq = member.next_seq()
    member.set(awaiting=seq)
    state = member.state
    if state.is_leader and not event.skip_assignment:
        member.do(
            PerformAssignment(
                seq=seq,
                generation=event.generation,
                protocol=event.protocol,
                leader=event.member_id,
                last_completed=state.last_completed,
                members=event.members,
                reason=state.join_reason,
                last_record=state.record,
            )
        )
    else:
        member.send_sync({})


def on_assignment_computed(member: Transition, event: AssignmentComputed) -> None:
    state = member.state
    if event.seq != state.awaiting:
        return
    member.set(unpublished=event.record)
    member.send_sync(event.assignments)


def on_synced(member: Transition, event: Synced) -> None:
    if event.seq != member.state.awaiting:
        return
    protocol = member.state.protocol
    assert protocol is not None  # chosen by the coordinator when all had joined
    try:
        assignment = CODECS[protocol].decode_assignment(event.assignment)
    except MalformedEmbeddedError as malformed:
        member.do(Warn(message=f"the leader {member.state.leader!r} sent no assignment: {malformed}; joining again"))
        begin_again(member)
        return
    member.set(phase=Phase.STABLE, awaiting=None, attempts=0, rebalance_deadline=None, sync_by=None)
    member.heartbeat_fast()
    state = member.state
    if state.unpublished is not None:
        member.set(record=state.unpublished, record_at=member.now, unpublished=None)
        assert member.state.record is not None
        member.do(PublishGroup(record=member.state.record))
    if assignment.error != AssignmentError.NONE:
        _adopt_nothing(member, assignment)
    elif not state.returning or not (protocol.cooperative or state.is_leader):
        _adopt_answer(member, assignment, protocol)
    else:
        patience = member.now + state.settings.session_timeout_ms // 2
        member.set(unadopted=assignment, record_by=max(patience, state.hold_until or 0))
        adopt_record(member)


def _adopt_nothing(member: Transition, assignment: Assignment) -> None:
    """The leader could not assign, for it is behind on the jobs topic. It joins again when it has caught up; for the
    others there is nothing to do but to go on, so that the group does not spin.
    """
    state = member.state
    member.set(needed_offset=assignment.config_offset)
    if assignment.error != AssignmentError.CONFIG_MISMATCH:
        member.do(Warn(message=f"the leader {assignment.leader!r} sent the unknown error {assignment.error}"))
    if state.is_leader and state.config_offset >= assignment.config_offset:
        member.want_join("the leader has read the jobs topic further by now")


def _complete(member: Transition, assignment: Assignment) -> None:
    """This round is known to be the group's last one; from here on this member is in it.

    Its epoch is above the last one that this member was in, whatever records have got lost on the way.
    """
    state = member.state
    again = (state.generation, assignment.leader) == (state.last_completed, state.last_leader)
    least = state.epoch if again else Epoch(state.epoch + 1)
    member.set(
        epoch=max(epoch_of(state.generation, assignment.leader, state.record), least),
        last_completed=state.generation,
        last_leader=assignment.leader,
        needed_offset=assignment.config_offset,
        told_delay_ms=assignment.delay_ms,
        returning=False,
        may_be_forgotten=False,
        unadopted=None,
        record_by=None,
    )


def _adopt_answer(member: Transition, assignment: Assignment, protocol: SubProtocol) -> None:
    """Apply what the leader computed from what this member reported when it joined.

    That may be the last round again: a follower that joins a stable group with the same metadata as last time, so
    owning what it owned then, is answered with that round's assignment.
    """
    state = member.state
    downgraded = not protocol.cooperative and state.last_completed >= 0 and bool(state.owned)
    _complete(member, assignment)
    if downgraded:
        member.stop(state.owned, StopReason.EAGER)
    else:
        revoked = assignment.revoked if protocol.cooperative else state.owned - assignment.assigned
        member.stop(revoked, StopReason.REVOKED)
        member.hold(assignment.assigned - state.owned)
    _after_adoption(member, rejoin_at=member.now + assignment.delay_ms, rejoin=bool(assignment.revoked))


def adopt_record(member: Transition) -> None:
    """A static member that came back to a stable group is answered with the bytes of the last round, which say what
    changed then and not what this member has. The group record of that same round does. In an eager group the bytes
    say it too; but a leader needs the record all the same, to know when the round does not cover what is configured.
    """
    state = member.state
    assignment, record = state.unadopted, state.record
    if assignment is None or record is None or not record.is_round(state.generation, assignment.leader):
        return
    _complete(member, assignment)
    owned, revoked = record.owned_by(state.settings.worker), record.revoked_from(state.settings.worker)
    member.stop(state.owned - owned, StopReason.REVOKED)
    if member.predecessor_may_run:
        member.hold((owned | revoked) - state.owned)
        member.stop(revoked, StopReason.REVOKED)
    else:
        member.hold(owned - state.owned)
    _after_adoption(member, rejoin_at=state.record_at + assignment.delay_ms, rejoin=bool(revoked))


def _after_adoption(member: Transition, *, rejoin_at: int, rejoin: bool) -> None:
    """Who had to give something up joins again at once, the others when the scheduled delay is over (KIP-415)."""
    if member.state.told_delay_ms:
        member.set(rejoin_at=rejoin_at)
    member.publish_assignment()
    if rejoin or member.state.stopping:
        member.set(rejoin_reason=member.state.rejoin_reason or "revoked tasks have stopped")
    member.join_when_ready()


def on_record_read(member: Transition, event: RecordRead) -> None:
    state = member.state
    if state.record is not None and event.record.epoch < state.record.epoch:
        return
    member.set(record=event.record, record_at=member.now - max(0, event.age_ms))
    member.heed_namesake()
    adopt_record(member)
    state = member.state
    in_round = event.record.is_round(state.last_completed, state.last_leader)
    if in_round and state.epoch < event.record.epoch:
        member.set(epoch=event.record.epoch)
        member.publish_assignment()
    member.join_when_ready()


def without_record(member: Transition) -> None:
    """No record of this round came: make the coordinator rebalance by joining with what is really running here."""
    member.set(returning=False, unadopted=None, record_by=None)
    member.want_join("no record tells what this worker owned")
