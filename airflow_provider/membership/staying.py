"""How a member stays in its group: heartbeats, the lease, timers, its tasks' ends; and how it leaves."""

from __future__ import annotations

from typing import Final

from airflow_provider.membership.causes import OTHERS_BEGAN
from airflow_provider.membership.events import (
    ConfigAdvanced,
    CoordinatorFound,
    HeartbeatAnswered,
    LeaveRequested,
    Left,
    RebalanceWanted,
    Request,
    RequestRejected,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.membership.joining import begin_again, fenced, refused, without_record
from airflow_provider.membership.state import Phase
from airflow_provider.membership.turn import Turn
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import NO_TASKS, Tasks

_RECORD_WRITTEN_IN: Final = 20
"""A leader takes some milliseconds to write its record; this part of a session is many times as much."""


def on_heartbeat_answered(turn: Turn, event: HeartbeatAnswered) -> None:
    """An answer to an earlier member id or generation says nothing about this one."""
    state = turn.state
    if (event.member_id, event.generation) != (state.member_id, state.generation):
        return
    if event.error is KafkaErrorCode.NONE:
        turn.renew_lease(event.sent_at_ms)
        turn.set(attempts=0, heard_at=max(state.heard_at, event.sent_at_ms))
    elif event.error is KafkaErrorCode.REBALANCE_IN_PROGRESS:
        _rebalance_begun(turn, event)
    else:
        _on_heartbeat_error(turn, event.error)
    turn.start_held()
    turn.join_when_ready()


def _on_heartbeat_error(turn: Turn, error: KafkaErrorCode) -> None:
    state = turn.state
    if error is KafkaErrorCode.ILLEGAL_GENERATION:
        if state.phase is Phase.STABLE:
            turn.want_join("the group is in another generation")
    elif error is KafkaErrorCode.UNKNOWN_MEMBER_ID:
        _unknown(turn)
    elif error is KafkaErrorCode.FENCED_INSTANCE_ID:
        fenced(turn)
    elif error is KafkaErrorCode.GROUP_AUTHORIZATION_FAILED:
        refused(turn, Request.HEARTBEAT, error)
    elif state.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        if error in (KafkaErrorCode.NOT_COORDINATOR, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE):
            begin_again(turn)
    elif state.phase in (Phase.STABLE, Phase.LEAVING) and state.coordinator is not None and state.awaiting is None:
        turn.retry_later()


def _rebalance_begun(turn: Turn, event: HeartbeatAnswered) -> None:
    """The coordinator waits ``rebalance_timeout_ms`` for this member to join and then goes on without it, heartbeats or
    not. The rebalance began at some time after the last heartbeat that was answered without an error. Its end, for this
    member, is the answer to its JoinGroup: one that is on its way may get lost.
    """
    state = turn.state
    if state.rebalance_deadline is None:
        turn.set(rebalance_deadline=state.heard_at + state.settings.rebalance_lease_ms)
    turn.renew_lease(event.sent_at_ms)
    if state.phase is Phase.STABLE:
        turn.want_join(OTHERS_BEGAN)
        _expect_record_soon(turn)
    turn.limit_patience()


def _expect_record_soon(turn: Turn) -> None:
    """Who waits for the record of the last round waits no longer than it takes to write one: everybody waits for this
    member, and a leader of Java Connect's writes none.
    """
    state = turn.state
    if state.record_by is not None:
        soon = turn.now + state.settings.session_timeout_ms // _RECORD_WRITTEN_IN
        turn.set(record_by=min(state.record_by, max(soon, state.hold_until or 0)))


def _unknown(turn: Turn) -> None:
    if turn.state.phase is Phase.LEAVING:
        turn.set(lease_until=None)
    else:
        turn.expelled("the coordinator did not know the member")


def on_timer(turn: Turn, _event: TimerFired) -> None:
    """Do what is due. A timer that fires early does nothing but arm itself again."""
    turn.set(armed_at=None)
    _lease_over(turn)
    state, now = turn.state, turn.now
    if state.retry_at is not None and now >= state.retry_at:
        turn.find_coordinator()
    if state.heartbeat_at is not None and now >= state.heartbeat_at:
        _heartbeat_due(turn)
    if state.record_by is not None and now >= state.record_by:
        without_record(turn)
    if state.sync_by is not None and now >= state.sync_by:
        begin_again(turn)
    if state.rejoin_at is not None and now >= state.rejoin_at:
        turn.set(rejoin_at=None)
        turn.want_join("the scheduled delay is over")
    if state.join_by is not None and now >= state.join_by:
        _out_of_patience(turn)
    if state.hold_until is not None and now >= state.hold_until:
        turn.set(hold_until=None)
        _stopped(turn, state.held & state.stopping)
        turn.start_held()
        turn.join_when_ready()


def _out_of_patience(turn: Turn) -> None:
    """Join with what still runs, rather than have the group go on without this member."""
    state = turn.state
    if state.join_by is None:
        return  # it has joined by now
    if state.coordinator is None:
        turn.set(join_by=turn.now + state.settings.retry_backoff_max_ms)
    else:
        turn.send_join("the group cannot wait for tasks that do not stop")


def _lease_over(turn: Turn) -> None:
    state = turn.state
    if state.lease_stop_at is None or turn.now < state.lease_stop_at:
        return
    turn.stop(state.running, StopReason.LEASE_OVER)
    if turn.state.phase is Phase.STABLE:
        turn.set(rejoin_reason=turn.state.rejoin_reason or "no heartbeat was answered in time, so all tasks stopped")


def _heartbeat_due(turn: Turn) -> None:
    if turn.state.coordinator is None:
        turn.set(heartbeat_at=turn.now + turn.state.settings.heartbeat_interval_ms)
    else:
        turn.send_heartbeat()


def on_tasks_stopped(turn: Turn, event: TasksStopped) -> None:
    """What has stopped is to go on elsewhere, which takes another round; others may still be stopping."""
    _stopped(turn, event.tasks)
    turn.join_when_ready()
    turn.limit_patience()


def _stopped(turn: Turn, tasks: Tasks) -> None:
    """A member that has already joined a rebalance reported these as its own, so it must join another one."""
    state = turn.state
    if tasks & state.owned and state.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        turn.set(rejoin_reason=state.rejoin_reason or "tasks stopped while the group rebalanced")
    turn.released(tasks)


def on_tasks_finished(turn: Turn, event: TasksFinished) -> None:
    """Everybody knows it from the status topic: no reason to join again."""
    turn.released(event.tasks)
    turn.join_when_ready()


def on_tasks_ended_late(turn: Turn, event: TasksStopped | TasksFinished) -> None:
    """In a membership that has ended there is nothing left to do about it."""
    turn.released(event.tasks)


def on_config_advanced(turn: Turn, event: ConfigAdvanced) -> None:
    """Start what had to wait for the jobs topic. If the last round failed for want of it, the leader joins again."""
    turn.set(config_offset=max(turn.state.config_offset, event.config_offset))
    state = turn.state
    turn.start_held()
    failed_round = state.unadopted is None and state.generation != state.last_completed
    if state.is_leader and failed_round and state.config_offset >= state.needed_offset:
        turn.want_join("the leader has read the jobs topic as far as the others")


def on_rebalance_wanted(turn: Turn, event: RebalanceWanted) -> None:
    """Only a leader's join is sure to make the coordinator rebalance, so it is the leader who watches for reasons. One
    that is behind the others on the jobs topic can't assign anything: it joins when it has caught up.
    """
    state = turn.state
    if state.is_leader and state.unadopted is None and state.config_offset >= state.needed_offset:
        turn.want_join(event.reason)


# ---- leaving


def on_leave_requested(turn: Turn, event: LeaveRequested) -> None:
    """Stop everything, then leave; the coordinator may be away, so not for longer than a session."""
    turn.stop(turn.state.owned, StopReason.LEAVING)
    turn.set(
        phase=Phase.LEAVING,
        awaiting=None,
        join_reason=event.reason,
        rejoin_reason=None,
    )
    turn.forget_round()
    if turn.state.coordinator is None and turn.state.retry_at is None:
        turn.find_coordinator()
    _leave_when_stopped(turn)


def _leave_when_stopped(turn: Turn) -> None:
    """LeaveGroup takes the worker's name out of the group, and others are given its tasks at once. So what a
    predecessor may still run keeps it waiting as its own tasks do; and who has not joined, and does not know whether
    its predecessor is still at work, leaves the name to that one and its session.
    """
    state = turn.state
    if state.stopping or turn.predecessor_may_run:
        return
    if state.predecessor is Predecessor.UNKNOWN:
        _gone(turn)
        return
    if state.leave_by is None:
        turn.set(leave_by=turn.now + state.settings.session_timeout_ms)
    if state.coordinator is not None and state.awaiting is None:
        turn.send_leave()


def on_task_ended_while_leaving(turn: Turn, event: TasksStopped | TasksFinished) -> None:
    turn.released(event.tasks)
    _leave_when_stopped(turn)


def on_coordinator_found_while_leaving(turn: Turn, event: CoordinatorFound) -> None:
    if event.seq == turn.state.awaiting:
        turn.set(awaiting=None, coordinator=event.node)
        _leave_when_stopped(turn)


def on_rejected_while_leaving(turn: Turn, event: RequestRejected) -> None:
    if event.seq != turn.state.awaiting:
        return
    if event.error in (KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_INSTANCE_ID):
        _gone(turn)
    else:
        turn.retry_later()


def on_left(turn: Turn, event: Left) -> None:
    if event.seq == turn.state.awaiting:
        _gone(turn)


def _gone(turn: Turn) -> None:
    turn.end(Phase.LEFT, StopReason.LEAVING, error=None)


def on_timer_while_leaving(turn: Turn, event: TimerFired) -> None:
    on_timer(turn, event)
    _leave_when_stopped(turn)
    state = turn.state
    if state.phase is Phase.LEAVING and state.leave_by is not None and turn.now >= state.leave_by:
        turn.set(owned=NO_TASKS, held=NO_TASKS, stopping=NO_TASKS)
        _gone(turn)
