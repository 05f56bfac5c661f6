"""How a member joins a rebalance and gets its assignment."""

from __future__ import annotations

from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    CoordinatorFound,
    Joined,
    PerformAssignment,
    PublishGroup,
    RecordRead,
    Resumed,
    Started,
    StartLearning,
    Synced,
)
from airflow_provider.group.classic.member.learning import adopt_target, learn_nothing, leave_unheard
from airflow_provider.group.classic.member.reactions import begin_again
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.classic.member.transition import Transition
from airflow_provider.group.classic.wire import CODECS
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import Warn
from airflow_provider.state.rounds.classic import epoch_of
from airflow_provider.values.group_protocol.join_reasons import HAVE_STOPPED, STARTS
from airflow_provider.values.model import (
    NO_TASKS,
    UNKNOWN_MEMBER_ID,
    Assignment,
    AssignmentError,
    Epoch,
    MalformedEmbeddedError,
    MemberId,
    SubProtocol,
)


def on_started(member: Transition, event: Started) -> None:
    """Look for the coordinator, to join the group."""
    member.set(
        phase=Phase.UNJOINED,
        config_offset=event.config_offset,
        spoken_epoch=event.spoken_epoch,
        predecessor=event.predecessor,
        rejoin_reason=STARTS,
    )
    member.find_coordinator()


def on_resumed(member: Transition, event: Resumed) -> None:
    """Continue as the same member. Nothing runs here yet, and all owned tasks wait for a valid lease.

    Without a member id this process does not heartbeat yet: if the coordinator has meanwhile handled the JoinGroup of
    the process before, it would take the heartbeat for that of another process under this name.

    A member that has yet to join a rebalance starts nothing before it has its assignment: the process before may have
    missed an answer that said that the group has returned to the eager protocol, in which tasks that are not reported
    are given to others. And if it is about to join an eager rebalance, it owns nothing: tasks that the process before
    had not started are given to others in it.
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
        spoken_epoch=event.spoken_epoch,
        owned=owned,
        held=owned,
        rejoin_reason=state.rejoin_reason or (None if known else "a worker continues in another process"),
    )
    if state.lessons.learning:
        member.do(StartLearning(tasks=state.lessons.learning))
    if state.member_id != UNKNOWN_MEMBER_ID:
        member.heartbeat_fast()
    member.find_coordinator()
    member.start_held()


def on_coordinator_found(member: Transition, event: CoordinatorFound) -> None:
    """Send what waited for the coordinator: a heartbeat, or a join."""
    if event.seq != member.state.awaiting:
        return
    member.set(awaiting=None, coordinator=event.node)
    if member.state.phase is Phase.STABLE:
        member.send_heartbeat()
    member.join_when_ready()


def on_joined(member: Transition, event: Joined) -> None:
    """Note the generation. The coordinator now waits for everybody's SyncGroup as long as it did for the joins.

    A member that has joined again as the same member because it got no answer may be told a generation that was
    complete before. Then the coordinator has waited since that time, and this JoinGroup has not begun another session.
    Only for a new member it has.

    The leader computes the assignment, unless the coordinator tells it to skip that (KIP-814: a static leader has
    returned to a stable group). All members ask for theirs.
    """
    if event.seq != member.state.awaiting:
        return
    is_new = event.member_id != member.state.member_id
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
        # From now on the coordinator fences the process that had this name, so its lease ends within a session.
        member.set(predecessor=Predecessor.GONE, hold_until=member.now + member.state.settings.session_timeout_ms)
    member.set(heard_at=max(member.state.heard_at, member.state.join_sent_at))
    if is_new:
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
                epoch=state.epoch,
            )
        )
    else:
        member.send_sync({})


def on_assignment_computed(member: Transition, event: AssignmentComputed) -> None:
    """Send the assignments that this member has computed as the leader."""
    state = member.state
    if event.seq != state.awaiting:
        return
    member.set(unpublished=event.record)
    member.send_sync(event.assignments)


def on_synced(member: Transition, event: Synced) -> None:
    """Take this member's assignment, which completes the round."""
    if event.seq != member.state.awaiting:
        return
    protocol = member.state.protocol
    assert protocol is not None  # chosen by the coordinator when all had joined
    try:
        assignment = CODECS[protocol].decode_assignment(event.assignment)
        _check_target(assignment)
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
    elif isinstance(assignment, ExtensibleAssignment):
        _adopt_target(member, assignment)
    elif not state.returning or not (protocol.cooperative or state.is_leader):
        _adopt_answer(member, assignment, protocol)
    else:
        patience = member.now + state.settings.session_timeout_ms // 2
        member.set(unadopted=assignment, record_by=max(patience, state.hold_until or 0))
        adopt_record(member)


def _check_target(assignment: Assignment | ExtensibleAssignment) -> None:
    """Reject an assignment without a target and without an error: it does not say what this member is to own."""
    if isinstance(assignment, ExtensibleAssignment) and assignment.target is None and not assignment.error:
        raise MalformedEmbeddedError("target is missing, and no error says why")


def _adopt_nothing(member: Transition, assignment: Assignment | ExtensibleAssignment) -> None:
    """Handle an assignment with an error: the leader could not assign, because it is behind on the jobs topic.

    The leader joins again when it has caught up. The others just continue, so that the group does not rebalance in a
    loop.
    """
    state = member.state
    member.set(needed_offset=assignment.config_offset)
    if assignment.error != AssignmentError.CONFIG_MISMATCH:
        member.do(Warn(message=f"the leader {assignment.leader!r} sent the unknown error {assignment.error}"))
    if state.is_leader and state.config_offset >= assignment.config_offset:
        member.want_join("the leader has read the jobs topic further by now")


def _complete(member: Transition, assignment: Assignment | ExtensibleAssignment) -> None:
    """Take part in this round, which is now known to be the group's last one.

    Its epoch is above that of the last round that this member was in, even if records were lost. If no round of this
    protocol is known, it is above all in which anybody has written: the group may have been a declarative one.
    """
    state = member.state
    again = (state.generation, assignment.leader) == (state.last_completed, state.last_leader)
    least = state.epoch if again else Epoch(state.epoch + 1)
    if state.record is None:
        least = max(least, Epoch(state.spoken_epoch + 1))
    said = assignment.epoch if isinstance(assignment, ExtensibleAssignment) else None
    member.set(
        epoch=max(epoch_of(state.generation, assignment.leader, state.record) if said is None else said, least),
        last_completed=state.generation,
        last_leader=MemberId(assignment.leader),
        needed_offset=assignment.config_offset,
        told_delay_ms=assignment.delay_ms,
        another_round=isinstance(assignment, ExtensibleAssignment) and assignment.another_round,
        returning=False,
        may_be_forgotten=False,
        unadopted=None,
        record_by=None,
    )


def _adopt_target(member: Transition, assignment: ExtensibleAssignment) -> None:
    """Adopt an assignment of v3 or v4. It tells a member that returns to a stable group what it owns, without the
    record; only how long the delay has run is taken from that, if it is here.
    """
    state = member.state
    begun_at = member.now
    if state.returning and state.record is not None and state.record.is_round(state.generation, assignment.leader):
        begun_at = state.record_at
    _complete(member, assignment)
    adopt_target(member, assignment)
    if state.returning:
        leave_unheard(member)
    _after_adoption(member, rejoin_at=begun_at + assignment.delay_ms, rejoin=len(assignment.revoked) > 0)


def _adopt_answer(member: Transition, assignment: Assignment, protocol: SubProtocol) -> None:
    """Apply what the leader computed from what this member reported when it joined.

    It may be the last round's assignment: a follower that joins a stable group with the same metadata as last time, so
    owns what it owned then, gets it again.
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
        member.start_held()
    learn_nothing(member)
    _after_adoption(member, rejoin_at=member.now + assignment.delay_ms, rejoin=bool(assignment.revoked))


def adopt_record(member: Transition) -> None:
    """Adopt the assignment of a static member that has returned to a stable group, once its record is here.

    Such a member is answered with the bytes of the last round. They say what changed then, and not what the member has;
    the group record of that round does. In an eager group the bytes do, too, but a leader needs the record all the
    same, to know when the round does not cover what is configured.
    """
    state = member.state
    assignment, record = state.unadopted, state.record
    if assignment is None or record is None or not record.is_round(state.generation, assignment.leader):
        return
    _complete(member, assignment)
    owned, revoked = record.owned_by(state.settings.worker), record.revoked_from(state.settings.worker)
    member.own(owned, revoked)
    learn_nothing(member)
    _after_adoption(member, rejoin_at=state.record_at + assignment.delay_ms, rejoin=bool(revoked))


def _after_adoption(member: Transition, *, rejoin_at: int, rejoin: bool) -> None:
    """Join again: immediately if something was revoked here, otherwise when the scheduled delay has ended (KIP-415)."""
    if member.state.told_delay_ms:
        member.set(rejoin_at=rejoin_at)
    member.publish(member.state.epoch)
    if rejoin or member.state.stopping:
        member.set(rejoin_reason=member.state.rejoin_reason or HAVE_STOPPED)
    member.join_when_ready()


def on_record_read(member: Transition, event: RecordRead) -> None:
    """Note a newer group record, and adopt an assignment that waited for it."""
    state = member.state
    if state.record is not None and event.record.epoch < state.record.epoch:
        return
    record = event.record
    if state.record is not None and record.is_same_round(state.record) and record.leader_member == state.member_id:
        record = state.record  # the object that this leader made: the next round compares its sets by identity
    member.set(record=record, record_at=member.now - max(0, event.age_ms))
    member.heed_namesake()
    adopt_record(member)
    state = member.state
    in_round = event.record.is_round(state.last_completed, state.last_leader)
    if in_round and state.epoch < event.record.epoch:
        member.set(epoch=event.record.epoch)
        member.publish(member.state.epoch)
    member.join_when_ready()


def without_record(member: Transition) -> None:
    """Join with what is really running here, as no record of this round came; that makes the coordinator rebalance."""
    member.set(returning=False, unadopted=None, record_by=None)
    member.want_join("no record tells what this worker owned")
