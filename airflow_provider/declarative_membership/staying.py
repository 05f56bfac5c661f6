"""How a member begins, stays in its group, and leaves: timers, its tasks' ends, and what others have to hear."""

from __future__ import annotations

from airflow_provider.declarative_membership.answers import on_heartbeat_answered
from airflow_provider.declarative_membership.events import (
    AssignorsChanged,
    DelaySet,
    HeartbeatAnswered,
    Request,
    RequestFailed,
    Resumed,
    Started,
    TasksDue,
    TellDelayOver,
)
from airflow_provider.declarative_membership.state import Phase
from airflow_provider.declarative_membership.transition import Transition
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.member_events import (
    ConfigAdvanced,
    LeaveRequested,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.protocol.model import NO_TASKS


def on_started(member: Transition, event: Started) -> None:
    member.set(
        phase=Phase.JOINING,
        config_offset=event.config_offset,
        predecessor=event.predecessor,
        assignors=event.assignors,
    )
    member.send_heartbeat()


def on_resumed(member: Transition, event: Resumed) -> None:
    """Go on as the same member, and say everything. Nothing runs here yet; all that is owned waits for a valid lease.

    Who was not in the group joins, and owns nothing. What was being revoked has ended with the process before; what an
    earlier one may still run is let go of when that one's lease is over.
    """
    state = member.state
    member.set(config_offset=event.config_offset, assignors=event.assignors)
    if state.lease_until is None:
        unknown = Predecessor.UNKNOWN in (state.predecessor, event.predecessor)
        member.set(phase=Phase.JOINING, predecessor=Predecessor.UNKNOWN if unknown else Predecessor.GONE)
    else:
        member.set(phase=Phase.STABLE, held=state.owned, stopping=state.revoked)
        if not state.predecessor_may_run(member.now):
            member.released(state.revoked)
        member.start_held()
    member.send_heartbeat()


def on_timer(member: Transition, _event: TimerFired) -> None:
    """Do what is due. A timer that fires early does nothing but arm itself again."""
    _lease_over(member)
    member.set(armed_at=None)
    state, now = member.state, member.now
    if state.hold_until is not None and now >= state.hold_until:
        _predecessor_over(member)
    if state.delay_over_at is not None and now >= state.delay_over_at and state.phase is Phase.STABLE:
        member.set(delay_over_at=None, delay_passed_ms=state.delay_over_ms)
        member.do(TellDelayOver(over_ms=state.delay_over_ms))
    state = member.state
    if state.heartbeat_at is not None and now >= state.heartbeat_at:
        member.send_heartbeat()


def _lease_over(member: Transition) -> None:
    """What stops here is this worker's still: it goes on when a heartbeat is answered as if nothing had been."""
    state = member.state
    if state.lease_stop_at is not None and member.now >= state.lease_stop_at:
        member.stop(state.running, StopReason.LEASE_OVER)


def _predecessor_over(member: Transition) -> None:
    """What had this worker's name can run nothing any more: what it had starts here, what was revoked is let go of, and
    the coordinator hears what this member owns.
    """
    member.set(hold_until=None, said=None)
    member.released(member.state.held & member.state.stopping)
    member.start_held()
    member.hurry()
    member.join_when_stopped()


def on_tasks_stopped(member: Transition, event: TasksStopped) -> None:
    member.stopped(event.tasks)
    member.start_held()
    member.acknowledge()
    member.join_when_stopped()


def on_tasks_finished(member: Transition, event: TasksFinished) -> None:
    """Everybody knows it from the status topic; what may be waited for is what else was to stop."""
    member.released(event.tasks)
    member.start_held()
    member.acknowledge()
    member.join_when_stopped()


def on_tasks_due(member: Transition, event: TasksDue) -> None:
    """Taken back after the next answer: that one says whether they are this worker's still."""
    state = member.state
    member.set(dropped=state.dropped | event.tasks & state.assigned - state.owned)


def on_tasks_ended_late(member: Transition, event: TasksStopped | TasksFinished) -> None:
    """In a membership that has ended there is nothing left to do about it."""
    member.released(event.tasks)


def on_config_advanced(member: Transition, event: ConfigAdvanced) -> None:
    member.set(config_offset=max(member.state.config_offset, event.config_offset))
    member.start_held()


def on_delay_set(member: Transition, event: DelaySet) -> None:
    member.set(delay_over_at=event.over_at_ms, delay_over_ms=event.over_ms)


def on_assignors_changed(member: Transition, event: AssignorsChanged) -> None:
    """Said immediately: the coordinator makes a new group epoch of it."""
    member.set(assignors=event.assignors)
    if member.state.assignors != member.state.said_assignors:
        member.hurry()


# ---- leaving


def on_leave_requested(member: Transition, _event: LeaveRequested) -> None:
    """Stop everything, then leave. Who has not joined, and does not know whether its predecessor is still at work,
    leaves the name to that one and its session.
    """
    joined = member.state.lease_until is not None
    member.stop(member.state.owned, StopReason.LEAVING)
    member.forget_assigning()
    member.set(phase=Phase.LEAVING, assigned=NO_TASKS, acknowledges=False)
    if not joined and member.state.predecessor is Predecessor.UNKNOWN:
        _gone(member)
        return
    if not joined:
        member.set(awaiting=None, heartbeat_at=None)
    _leave_when_stopped(member)


def _leave_when_stopped(member: Transition) -> None:
    """The coordinator gives a member's tasks away when it leaves. So what a predecessor may still run keeps it waiting
    as its own tasks do. Until then it heartbeats as before; then no longer than a session for an answer.
    """
    state = member.state
    if state.phase is not Phase.LEAVING or state.stopping or state.predecessor_may_run(member.now):
        return
    if state.leave_by is None:
        member.set(leave_by=member.now + state.session_ms, attempts=0)
        member.send_heartbeat()


def on_task_ended_while_leaving(member: Transition, event: TasksStopped | TasksFinished) -> None:
    member.released(event.tasks)
    _leave_when_stopped(member)


def on_answer_while_leaving(member: Transition, event: HeartbeatAnswered) -> None:
    """What it shall have does not matter any more. As long as it has something it stays a member."""
    state, error = member.state, KafkaErrorCode(event.reply.error_code)
    if event.seq != state.awaiting:
        return
    if state.leave_by is not None:
        if error in _LEFT:
            _gone(member)
        else:
            member.retry_later()
    elif error in _EXPELLED:
        member.set(awaiting=None, heartbeat_at=None, lease_until=None)
    else:
        on_heartbeat_answered(member, event)


_EXPELLED = frozenset({KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_MEMBER_EPOCH})
_LEFT = _EXPELLED | {KafkaErrorCode.NONE, KafkaErrorCode.FENCED_INSTANCE_ID, KafkaErrorCode.GROUP_ID_NOT_FOUND}


def on_failed_while_leaving(member: Transition, event: RequestFailed) -> None:
    if event.request is Request.HEARTBEAT and event.seq == member.state.awaiting:
        member.retry_later()


def on_timer_while_leaving(member: Transition, event: TimerFired) -> None:
    state = member.state
    if state.leave_by is not None and member.now >= state.leave_by:
        _gone(member)
        return
    on_timer(member, event)
    _leave_when_stopped(member)


def _gone(member: Transition) -> None:
    """Out of the group, as it wanted."""
    member.set(owned=NO_TASKS, held=NO_TASKS, stopping=NO_TASKS)
    member.end(Phase.LEFT, StopReason.LEAVING, error=None)
