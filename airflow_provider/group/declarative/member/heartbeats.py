"""How a member starts, stays in its group, and leaves: timers, ends of tasks, and changes that it has to report."""

from __future__ import annotations

from airflow_provider.group.declarative.member.answers import on_heartbeat_answered
from airflow_provider.group.declarative.member.events import (
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
from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.declarative.member.transition import Transition
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import (
    ConfigAdvanced,
    LeaveRequested,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS


def on_started(member: Transition, event: Started) -> None:
    """Ask to join."""
    member.set(
        phase=Phase.JOINING,
        config_offset=event.config_offset,
        predecessor=event.predecessor,
        assignors=event.assignors,
    )
    member.send_heartbeat()


def on_resumed(member: Transition, event: Resumed) -> None:
    """Continue as the same member, with a heartbeat that contains all fields. Owned tasks wait for a valid lease.

    If the former process was not in the group, this one joins, and owns nothing. Revoked tasks have ended with the
    former process; those that an earlier process may still run are released when that one's lease is over.
    """
    state = member.state
    member.set(config_offset=event.config_offset, assignors=event.assignors)
    if state.lease_until is None:
        unknown = Predecessor.UNKNOWN in (state.predecessor, event.predecessor)
        member.set(phase=Phase.JOINING, predecessor=Predecessor.UNKNOWN if unknown else Predecessor.GONE)
    else:
        member.set(phase=Phase.STABLE, held=state.owned, stopping=state.revoked)
        if not member.predecessor_may_run:
            member.released(state.revoked)
        member.start_held()
    member.send_heartbeat()


def on_timer(member: Transition, _event: TimerFired) -> None:
    """Do what is due. A timer that fires too early is only set again."""
    _stop_before_lease_ends(member)
    member.set(armed_at=None)
    state, now = member.state, member.now
    if state.hold_until is not None and now >= state.hold_until:
        _on_predecessor_over(member)
    if state.delay_over_at is not None and now >= state.delay_over_at and state.phase is Phase.STABLE:
        member.set(delay_over_at=None, delay_passed_ms=state.delay_over_ms)
        member.do(TellDelayOver(over_ms=state.delay_over_ms))
    state = member.state
    if state.heartbeat_at is not None and now >= state.heartbeat_at:
        member.send_heartbeat()


def _stop_before_lease_ends(member: Transition) -> None:
    """Stop all tasks shortly before the lease ends. They remain this worker's, and start again if a heartbeat is
    answered normally after all.
    """
    state = member.state
    if state.lease_stop_at is not None and member.now >= state.lease_stop_at:
        member.stop(state.running, StopReason.LEASE_OVER)


def _on_predecessor_over(member: Transition) -> None:
    """Go on when the lease of the predecessor is over: start its tasks here, release those that were revoked, and tell
    the coordinator what this member owns.
    """
    member.set(hold_until=None, said=None)
    member.released(member.state.held & member.state.stopping)
    member.start_held()
    member.hurry()
    member.join_when_stopped()


def on_tasks_stopped(member: Transition, event: TasksStopped) -> None:
    """Release tasks that have stopped, and go on with what waited for that."""
    member.stopped(event.tasks)
    member.start_held()
    member.acknowledge()
    member.join_when_stopped()


def on_tasks_finished(member: Transition, event: TasksFinished) -> None:
    """Release tasks that have ended. Others learn this from the status topic; here it may be the last task that an
    acknowledgement or a join has waited for.
    """
    member.released(event.tasks)
    member.start_held()
    member.acknowledge()
    member.join_when_stopped()


def on_tasks_due(member: Transition, event: TasksDue) -> None:
    """Start the tasks again after the next answer, which says whether they still belong to this worker."""
    state = member.state
    member.set(dropped=state.dropped | event.tasks & state.assigned - state.owned)


def on_config_advanced(member: Transition, event: ConfigAdvanced) -> None:
    """Start tasks that have waited for this offset of the jobs topic."""
    member.note_config(event.config_offset)
    member.start_held()


def on_delay_set(member: Transition, event: DelaySet) -> None:
    """Note when to ask for another assignment."""
    member.set(delay_over_at=event.over_at_ms, delay_over_ms=event.over_ms)


def on_assignors_changed(member: Transition, event: AssignorsChanged) -> None:
    """Tell the coordinator immediately: the change begins a new group epoch."""
    member.set(assignors=event.assignors)
    if member.state.assignors != member.state.said_assignors:
        member.hurry()


# ---- leaving


def on_leave_requested(member: Transition, _event: LeaveRequested) -> None:
    """Stop everything, then leave. A member that has not joined, and does not know whether its predecessor still runs,
    just ends: the name remains that one's until its session ends.
    """
    joined = member.state.lease_until is not None
    member.stop(member.state.owned, StopReason.LEAVING)
    member.forget_assigning()
    member.set(phase=Phase.LEAVING, assigned=NO_TASKS, acknowledges=False)
    if not joined and member.state.predecessor is Predecessor.UNKNOWN:
        _end_as_left(member)
        return
    if not joined:
        member.set(awaiting=None, heartbeat_at=None)
    _leave_when_stopped(member)


def _leave_when_stopped(member: Transition) -> None:
    """Leave, when all tasks have stopped and no predecessor may run any: the coordinator gives them to others then.

    Until then, the member sends heartbeats as before. Then it waits for an answer, for a session at most.
    """
    state = member.state
    if state.phase is not Phase.LEAVING or state.stopping or member.predecessor_may_run:
        return
    if state.leave_by is None:
        member.set(leave_by=member.now + state.session_ms, attempts=0)
        member.send_heartbeat()


def on_task_ended_while_leaving(member: Transition, event: TasksStopped | TasksFinished) -> None:
    """Release tasks, and leave if they were the last ones."""
    member.released(event.tasks)
    _leave_when_stopped(member)


def on_answer_while_leaving(member: Transition, event: HeartbeatAnswered) -> None:
    """React to an answer while leaving. Assignments do not matter any more, but the member stays in the group while it
    has tasks.
    """
    state, error = member.state, KafkaErrorCode(event.reply.error_code)
    if event.seq != state.awaiting:
        return
    if state.leave_by is not None:
        if error in _LEFT:
            _end_as_left(member)
        else:
            member.retry_later()
    elif error in _EXPELLED:
        member.set(awaiting=None, heartbeat_at=None, lease_until=None)
    else:
        on_heartbeat_answered(member, event)


_EXPELLED = frozenset({KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_MEMBER_EPOCH})
_LEFT = _EXPELLED | {KafkaErrorCode.NONE, KafkaErrorCode.FENCED_INSTANCE_ID, KafkaErrorCode.GROUP_ID_NOT_FOUND}


def on_failed_while_leaving(member: Transition, event: RequestFailed) -> None:
    """Send the heartbeat again after a while."""
    if event.request is Request.HEARTBEAT and event.seq == member.state.awaiting:
        member.retry_later()


def on_timer_while_leaving(member: Transition, event: TimerFired) -> None:
    """Do what is due. If the last heartbeat was not answered in time, end without an answer."""
    state = member.state
    if state.leave_by is not None and member.now >= state.leave_by:
        _end_as_left(member)
        return
    on_timer(member, event)
    _leave_when_stopped(member)


def _end_as_left(member: Transition) -> None:
    member.own_nothing()
    member.end(Phase.LEFT, StopReason.LEAVING, error=None)
