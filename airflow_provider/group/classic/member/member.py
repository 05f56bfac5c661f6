"""The member of a classic group, as a state machine without I/O: events in, commands out.

Everything that a member does in Kafka's classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), with
Connect's embedded protocol in it (KIP-415), is decided in this package. :func:`handle` takes the state and an event,
and returns the next state and the commands to carry out. It reads no clock and starts no task; its caller
(``group/live/classic/classic_member.py``, or a simulation) does, and feeds the results back as events.

Theory of operation
===================

Rounds. A member finds its coordinator and sends JoinGroup with what it owns, which it keeps running (*preparing
rebalance*). The coordinator answers all members together with the new generation and names a leader (*completing
rebalance*). The leader computes all assignments and sends them with its SyncGroup; the others send an empty one. Each
member is answered with its own assignment (*stable*).

An assignment of the cooperative protocols is a difference: what to start and what to stop. If a member had to stop
anything, it joins again as soon as that has stopped, and the group assigns the released tasks in that second round. If
the assignment has a delay, everybody joins again when it has ended. Other members hear of a rebalance by their
heartbeats, which are therefore frequent for a while after each round, and brought forward when the status topic hints
at a rebalance.

In the extensible protocol (v3 and v4) an assignment is complete, and it may say that a task is learned before it moves
(:mod:`~.learning`).

In the eager protocol (v0) an assignment is complete, and a member stops everything before it joins.

Held tasks. Not every assigned task starts immediately. A task is *held* while this member has not read the jobs topic
as far as the leader had; while it can't be sure that its lease is valid; and, if it took over the name of a process
that may still run, until that one's lease must have ended.

The lease. No other member is given this member's tasks before a session has passed since the last heartbeat that was
answered (or before the rebalance timeout has passed, if it does not join a rebalance or ask for its assignment).
Shortly before that, it stops all of them on its own.

Static members (KIP-345). A member that joins without a member id may be returning to a stable group. The coordinator
then answers without a rebalance and with the bytes of the last round; the group record of that round tells what the
member owns (:func:`~.joining.adopt_record`). Without such a record it joins again with what it really has. A leader
that returns is told to skip the assignment (KIP-814), and does the same.

A predecessor that may still run. A member that takes over the name of such a process answers for its tasks: it reports
them when it joins a rebalance, and releases revoked ones only when the predecessor's lease must have ended. The
coordinator fences the predecessor from the join on, so this takes at most a session. The member does not leave before
that either, as LeaveGroup gives the name's tasks away immediately. If it is asked to leave before it has joined, it
just ends. The eager protocol can't report tasks: there, the predecessor must have ended before.

Ends. *left*: it wanted to, and everything has stopped. *fenced*: another process took its name. *failed*: the
coordinator refused it for a reason that retrying does not mend. A member that the coordinator no longer knows has not
ended: it stops everything and joins again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.group.classic.member import heartbeats, joining, learning, reactions
from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    CoordinatorFound,
    HeartbeatAnswered,
    Joined,
    LearnersReady,
    LearningProgressed,
    LeaveSoonRequested,
    Left,
    RebalanceHinted,
    RebalanceWanted,
    RecordRead,
    RequestFailed,
    RequestRejected,
    Resumed,
    Started,
    Synced,
    UrlChanged,
)
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.classic.member.transition import Transition
from airflow_provider.group.machine.events import (
    Command,
    ConfigAdvanced,
    Event,
    LeaveRequested,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.group.machine.rule_table import Rules, apply, ended, late, on, rules


def _note_config(member: Transition, event: ConfigAdvanced) -> None:
    member.note_config(event.config_offset)


_INITIAL = Phase.INITIAL
_UNJOINED = Phase.UNJOINED
_PREPARING = Phase.PREPARING_REBALANCE
_COMPLETING = Phase.COMPLETING_REBALANCE
_STABLE = Phase.STABLE
_LEAVING = Phase.LEAVING
_LEFT = Phase.LEFT
_FENCED = Phase.FENCED
_FAILED = Phase.FAILED


_LATE: Final = (
    CoordinatorFound,
    RequestFailed,
    RequestRejected,
    Joined,
    AssignmentComputed,
    Synced,
    HeartbeatAnswered,
    RecordRead,
    ConfigAdvanced,
    RebalanceHinted,
    RebalanceWanted,
    LearningProgressed,
    LearnersReady,
    LeaveSoonRequested,
    UrlChanged,
    TimerFired,
    LeaveRequested,
    Left,
)
"""The events that may still come when the membership has ended, and mean nothing then."""

TRANSITIONS: Mapping[Phase, Rules[Transition, Phase]] = {
    _INITIAL: rules(
        on(Started, joining.on_started, _UNJOINED),
        on(Resumed, joining.on_resumed, _UNJOINED, _STABLE),
    ),
    _UNJOINED: rules(
        on(CoordinatorFound, joining.on_coordinator_found, _UNJOINED, _PREPARING),
        on(RequestFailed, reactions.on_request_failed, _UNJOINED),
        on(RequestRejected, reactions.on_request_rejected, _UNJOINED, _FAILED),
        on(Joined, late, _UNJOINED),
        on(AssignmentComputed, late, _UNJOINED),
        on(Synced, late, _UNJOINED),
        on(HeartbeatAnswered, heartbeats.on_heartbeat_answered, _UNJOINED, _FENCED, _FAILED),
        on(RecordRead, joining.on_record_read, _UNJOINED),
        on(ConfigAdvanced, _note_config, _UNJOINED),
        on(RebalanceHinted, late, _UNJOINED),
        on(RebalanceWanted, late, _UNJOINED),
        on(TasksStopped, heartbeats.on_tasks_stopped, _UNJOINED, _PREPARING),
        on(TasksFinished, heartbeats.on_tasks_finished, _UNJOINED, _PREPARING),
        on(LearningProgressed, learning.on_learning_progressed, _UNJOINED, _PREPARING),
        on(LearnersReady, learning.on_learners_ready, _UNJOINED),
        on(LeaveSoonRequested, learning.on_leave_soon_requested, _UNJOINED, _PREPARING),
        on(UrlChanged, heartbeats.on_url_changed, _UNJOINED),
        on(TimerFired, heartbeats.on_timer, _UNJOINED, _PREPARING),
        on(LeaveRequested, heartbeats.on_leave_requested, _LEAVING, _LEFT),
        on(Left, late, _UNJOINED),
    ),
    _PREPARING: rules(
        on(CoordinatorFound, late, _PREPARING),
        on(RequestFailed, reactions.on_request_failed, _PREPARING, _UNJOINED),
        on(RequestRejected, reactions.on_request_rejected, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        on(Joined, joining.on_joined, _PREPARING, _COMPLETING),
        on(AssignmentComputed, late, _PREPARING),
        on(Synced, late, _PREPARING),
        on(HeartbeatAnswered, heartbeats.on_heartbeat_answered, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        on(RecordRead, joining.on_record_read, _PREPARING),
        on(ConfigAdvanced, _note_config, _PREPARING),
        on(RebalanceHinted, late, _PREPARING),
        on(RebalanceWanted, late, _PREPARING),
        on(TasksStopped, heartbeats.on_tasks_stopped, _PREPARING),
        on(TasksFinished, heartbeats.on_tasks_finished, _PREPARING),
        on(LearningProgressed, learning.on_learning_progressed, _PREPARING),
        on(LearnersReady, learning.on_learners_ready, _PREPARING),
        on(LeaveSoonRequested, learning.on_leave_soon_requested, _PREPARING),
        on(UrlChanged, heartbeats.on_url_changed, _PREPARING),
        on(TimerFired, heartbeats.on_timer, _PREPARING),
        on(LeaveRequested, heartbeats.on_leave_requested, _LEAVING, _LEFT),
        on(Left, late, _PREPARING),
    ),
    _COMPLETING: rules(
        on(CoordinatorFound, late, _COMPLETING),
        on(RequestFailed, reactions.on_request_failed, _COMPLETING, _UNJOINED),
        on(RequestRejected, reactions.on_request_rejected, _COMPLETING, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        on(Joined, late, _COMPLETING),
        on(AssignmentComputed, joining.on_assignment_computed, _COMPLETING),
        on(Synced, joining.on_synced, _COMPLETING, _STABLE, _PREPARING, _UNJOINED),
        on(HeartbeatAnswered, heartbeats.on_heartbeat_answered, _COMPLETING, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        on(RecordRead, joining.on_record_read, _COMPLETING),
        on(ConfigAdvanced, _note_config, _COMPLETING),
        on(RebalanceHinted, late, _COMPLETING),
        on(RebalanceWanted, late, _COMPLETING),
        on(TasksStopped, heartbeats.on_tasks_stopped, _COMPLETING),
        on(TasksFinished, heartbeats.on_tasks_finished, _COMPLETING),
        on(LearningProgressed, learning.on_learning_progressed, _COMPLETING),
        on(LearnersReady, learning.on_learners_ready, _COMPLETING),
        on(LeaveSoonRequested, learning.on_leave_soon_requested, _COMPLETING),
        on(UrlChanged, heartbeats.on_url_changed, _COMPLETING),
        on(TimerFired, heartbeats.on_timer, _COMPLETING, _UNJOINED),
        on(LeaveRequested, heartbeats.on_leave_requested, _LEAVING),
        on(Left, late, _COMPLETING),
    ),
    _STABLE: rules(
        on(CoordinatorFound, joining.on_coordinator_found, _STABLE, _PREPARING),
        on(RequestFailed, reactions.on_request_failed, _STABLE),
        on(RequestRejected, reactions.on_request_rejected, _STABLE, _FAILED),
        on(Joined, late, _STABLE),
        on(AssignmentComputed, late, _STABLE),
        on(Synced, late, _STABLE),
        on(HeartbeatAnswered, heartbeats.on_heartbeat_answered, _STABLE, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        on(RecordRead, joining.on_record_read, _STABLE, _PREPARING),
        on(ConfigAdvanced, heartbeats.on_config_advanced, _STABLE, _PREPARING),
        on(RebalanceHinted, heartbeats.on_rebalance_hinted, _STABLE),
        on(RebalanceWanted, heartbeats.on_rebalance_wanted, _STABLE, _PREPARING),
        on(TasksStopped, heartbeats.on_tasks_stopped, _STABLE, _PREPARING),
        on(TasksFinished, heartbeats.on_tasks_finished, _STABLE, _PREPARING),
        on(LearningProgressed, learning.on_learning_progressed, _STABLE, _PREPARING),
        on(LearnersReady, learning.on_learners_ready, _STABLE),
        on(LeaveSoonRequested, learning.on_leave_soon_requested, _STABLE, _PREPARING),
        on(UrlChanged, heartbeats.on_url_changed, _STABLE, _PREPARING),
        on(TimerFired, heartbeats.on_timer, _STABLE, _PREPARING),
        on(LeaveRequested, heartbeats.on_leave_requested, _LEAVING),
        on(Left, late, _STABLE),
    ),
    _LEAVING: rules(
        on(CoordinatorFound, heartbeats.on_coordinator_found_while_leaving, _LEAVING, _LEFT),
        on(RequestFailed, reactions.on_request_failed, _LEAVING),
        on(RequestRejected, reactions.on_rejected_while_leaving, _LEAVING, _LEFT),
        on(Joined, late, _LEAVING),
        on(AssignmentComputed, late, _LEAVING),
        on(Synced, late, _LEAVING),
        on(HeartbeatAnswered, heartbeats.on_heartbeat_answered, _LEAVING, _FENCED, _FAILED),
        on(RecordRead, late, _LEAVING),
        on(ConfigAdvanced, late, _LEAVING),
        on(RebalanceHinted, late, _LEAVING),
        on(RebalanceWanted, late, _LEAVING),
        on(TasksStopped, heartbeats.on_task_ended_while_leaving, _LEAVING, _LEFT),
        on(TasksFinished, heartbeats.on_task_ended_while_leaving, _LEAVING, _LEFT),
        on(LearningProgressed, late, _LEAVING),
        on(LearnersReady, late, _LEAVING),
        on(LeaveSoonRequested, late, _LEAVING),
        on(UrlChanged, late, _LEAVING),
        on(TimerFired, heartbeats.on_timer_while_leaving, _LEAVING, _LEFT),
        on(LeaveRequested, late, _LEAVING),
        on(Left, heartbeats.on_left, _LEAVING, _LEFT),
    ),
    _LEFT: ended(_LEFT, *_LATE),
    _FENCED: ended(_FENCED, *_LATE),
    _FAILED: ended(_FAILED, *_LATE),
}


def handle(state: MemberState, event: Event) -> tuple[MemberState, list[Command]]:
    """Handle one event.

    :return: the next state, and the commands to carry out in their order
    :raises LocalProtocolError: for an event that can't happen in this phase: a bug in the caller
    """
    member = Transition(state, event.now_ms)
    apply(TRANSITIONS, member, event)
    return member.state, member.commands
