"""How a member stays in its group (heartbeats, the lease, timers, the ends of its tasks), and how it leaves."""

from __future__ import annotations

from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    HeartbeatAnswered,
    Left,
    RebalanceHinted,
    RebalanceWanted,
    Request,
    UrlChanged,
)
from airflow_provider.group.classic.member.joining import without_record
from airflow_provider.group.classic.member.learning import learn_nothing, may_leave
from airflow_provider.group.classic.member.reactions import Refusal, begin_again, gone, react
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.classic.member.transition import Transition
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import (
    ConfigAdvanced,
    LeaveRequested,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.group_protocol.join_reasons import DELAY_OVER
from airflow_provider.values.model import Tasks


def on_heartbeat_answered(member: Transition, event: HeartbeatAnswered) -> None:
    """Handle an answer, unless it is for an earlier member id or generation, and so says nothing about this one."""
    state = member.state
    if (event.member_id, event.generation) != (state.member_id, state.generation):
        return
    if event.error is KafkaErrorCode.NONE:
        member.renew_lease(event.sent_at_ms)
        member.set(attempts=0, heard_at=max(state.heard_at, event.sent_at_ms))
        if state.hinted:
            _ask_soon(member)
    else:
        react(member, Refusal(Request.HEARTBEAT, event.error, sent_at_ms=event.sent_at_ms))
    member.start_held()
    member.join_when_ready()


def on_timer(member: Transition, _event: TimerFired) -> None:
    """Do what is due. After an early timer, this only arms it again."""
    _lease_over(member)
    state, now = member.state, member.now
    member.set(armed_at=None)
    if state.retry_at is not None and now >= state.retry_at:
        member.find_coordinator()
    if state.heartbeat_at is not None and now >= state.heartbeat_at:
        _heartbeat_due(member)
    if state.record_by is not None and now >= state.record_by:
        without_record(member)
    if state.sync_by is not None and now >= state.sync_by:
        begin_again(member)
    if state.rejoin_at is not None and now >= state.rejoin_at:
        member.set(rejoin_at=None)
        member.want_join(DELAY_OVER)
    if state.join_by is not None and now >= state.join_by:
        _join_with_what_runs(member)
    if state.hold_until is not None and now >= state.hold_until:
        member.set(hold_until=None)
        _stopped(member, state.held & state.stopping)
        member.start_held()
        member.join_when_ready()


def _join_with_what_runs(member: Transition) -> None:
    """Join with what still runs, before the group continues without this member."""
    state = member.state
    if state.join_by is None:
        return  # it has joined meanwhile
    if state.coordinator is None:
        member.set(join_by=member.now + state.settings.retry_backoff_max_ms)
    else:
        member.send_join("the group cannot wait for tasks that do not stop")


def _lease_over(member: Transition) -> None:
    state = member.state
    if state.lease_stop_at is None or member.now < state.lease_stop_at:
        return
    member.stop(state.running, StopReason.LEASE_OVER)
    if member.state.phase is Phase.STABLE:
        member.set(
            rejoin_reason=member.state.rejoin_reason or "no heartbeat was answered in time, so all tasks stopped"
        )


def _heartbeat_due(member: Transition) -> None:
    if member.state.coordinator is None:
        member.set(heartbeat_at=member.now + member.state.settings.heartbeat_interval_ms)
    else:
        member.send_heartbeat()


def on_tasks_stopped(member: Transition, event: TasksStopped) -> None:
    """Release stopped tasks. They are to run elsewhere, which takes another round; others may still be stopping."""
    _stopped(member, event.tasks)
    may_leave(member)
    member.join_when_ready()
    member.limit_patience()


def _stopped(member: Transition, tasks: Tasks) -> None:
    """Release tasks. If this member has reported them in a join already, it has to join another rebalance."""
    state = member.state
    if tasks & state.owned and state.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE):
        member.set(rejoin_reason=state.rejoin_reason or "tasks stopped while the group rebalanced")
    member.released(tasks)


def on_tasks_finished(member: Transition, event: TasksFinished) -> None:
    """Release finished tasks. All read that in the status topic, so it is no reason to join again."""
    member.released(event.tasks)
    may_leave(member)
    member.join_when_ready()


def on_config_advanced(member: Transition, event: ConfigAdvanced) -> None:
    """Start tasks that were held for the jobs topic. If the last round failed because of it, the leader joins again."""
    member.note_config(event.config_offset)
    state = member.state
    member.start_held()
    failed_round = state.unadopted is None and state.generation != state.last_completed
    if state.is_leader and failed_round and state.config_offset >= state.needed_offset:
        member.want_join("the leader has read the jobs topic as far as the others")


def on_rebalance_hinted(member: Transition, _event: RebalanceHinted) -> None:
    _ask_soon(member)


def _ask_soon(member: Transition) -> None:
    """Ask the coordinator soon whether it rebalances, unless this member looks for it, or is about to join anyway."""
    state = member.state
    if state.phase is Phase.STABLE and state.coordinator is not None and state.rejoin_reason is None:
        member.heartbeat_soon()


def on_rebalance_wanted(member: Transition, event: RebalanceWanted) -> None:
    """Join, if this member leads: only a leader's join is sure to make the coordinator rebalance.

    A leader that is behind the others on the jobs topic can't assign anything. It joins when it has caught up.
    """
    state = member.state
    if state.is_leader and state.unadopted is None and state.config_offset >= state.needed_offset:
        member.want_join(event.reason)


def on_url_changed(member: Transition, event: UrlChanged) -> None:
    """Join with another url. If this member has just joined with the old one, it joins again after that round."""
    if event.url == member.state.url:
        return
    member.set(url=event.url)
    if member.state.phase is not Phase.UNJOINED:
        member.want_join("the metadata of a worker has changed")


# ---- leaving


def on_leave_requested(member: Transition, event: LeaveRequested) -> None:
    """Stop everything, then leave. Leaving takes at most a session, as the coordinator may be away."""
    member.stop(member.state.owned, StopReason.LEAVING)
    learn_nothing(member)
    member.set(
        phase=Phase.LEAVING,
        awaiting=None,
        join_reason=event.reason,
        rejoin_reason=None,
    )
    member.forget_round()
    if member.state.coordinator is None and member.state.retry_at is None:
        member.find_coordinator()
    _leave_when_stopped(member)


def _leave_when_stopped(member: Transition) -> None:
    """Send LeaveGroup, if nothing speaks against it.

    LeaveGroup removes the worker's name from the group, and others get its tasks immediately. So tasks that a
    predecessor may still run delay it as the member's own do. And a member that has not joined, and does not know
    whether its predecessor still works, just ends: the name is left to that one and its session.
    """
    state = member.state
    if state.stopping or member.predecessor_may_run:
        return
    if state.predecessor is Predecessor.UNKNOWN:
        gone(member)
        return
    if state.leave_by is None:
        member.set(leave_by=member.now + state.settings.session_timeout_ms)
    if state.coordinator is not None and state.awaiting is None:
        member.send_leave()


def on_task_ended_while_leaving(member: Transition, event: TasksStopped | TasksFinished) -> None:
    member.released(event.tasks)
    _leave_when_stopped(member)


def on_coordinator_found_while_leaving(member: Transition, event: CoordinatorFound) -> None:
    if event.seq == member.state.awaiting:
        member.set(awaiting=None, coordinator=event.node)
        _leave_when_stopped(member)


def on_left(member: Transition, event: Left) -> None:
    if event.seq == member.state.awaiting:
        gone(member)


def on_timer_while_leaving(member: Transition, event: TimerFired) -> None:
    on_timer(member, event)
    _leave_when_stopped(member)
    state = member.state
    if state.phase is Phase.LEAVING and state.leave_by is not None and member.now >= state.leave_by:
        member.own_nothing()
        gone(member)
