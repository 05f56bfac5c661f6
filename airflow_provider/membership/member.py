"""The member of a group, as a state machine without I/O: events in, commands out.

Everything that a member does in Kafka's classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) with
Connect's embedded protocol on top (KIP-415) is decided in this package. :func:`handle` takes the state and an event,
and gives the next state and the commands to carry out. It reads no clock and starts no task; what drives it
(``group/member.py``, or a simulation) does, and feeds the results back as events.

Theory of operation
===================

A round. A member finds its coordinator and sends JoinGroup with what it owns, and keeps running it (*preparing
rebalance*). The coordinator answers all members together with the new generation and names a leader (*completing
rebalance*). The leader computes everybody's assignment and sends it with its SyncGroup; the others send an empty one;
all are answered with their own assignment (*stable*).

An assignment of the cooperative protocols is a difference: what to start and what to stop. The member starts the one
and stops the other. If it had to stop anything it joins again as soon as that has stopped, and the group assigns the
released tasks in that second round. If the assignment has a delay, everybody joins again when it is over. The others
hear of a rebalance by their heartbeats, which therefore come fast for a while after each round.

In the extensible protocol (v3) an assignment is the whole, and it may say that a task is learned before it moves
(:mod:`~.learning`).

In the eager protocol (v0) an assignment is the whole, and a member stops everything before it joins.

What is not started immediately. A task is *held* while this member has not read the jobs topic as far as the leader
had; while it can't be sure that its lease is valid; and, when it took over the name of a process that may still run,
until that one's lease must be over.

The lease. Nobody else is given this member's tasks before a session has passed since the last heartbeat that was
answered (or, in a rebalance that it does not join or ask its assignment of, before the rebalance timeout has). Shortly
before that, it stops them all by itself.

Static members (KIP-345). A member that joins without a member id may be coming back to a stable group. The coordinator
then answers without a rebalance and with the bytes of the last round; the group record of that round tells what the
member owns (:func:`~.joining.adopt_record`). Without such a record it joins again with what it really has. A leader
that comes back is to skip the assignment (KIP-814) and does the same.

A predecessor that may still run. Who takes over the name of such a process speaks for its tasks: it reports them when
it joins a rebalance, and what it must give up it lets go of only when that one's lease must be over. The coordinator
fences the predecessor from the moment of the join on, so that this takes at most a session. Nor does it leave before,
for LeaveGroup gives the name's tasks away immediately; asked to leave before it has joined, it just ends. In the eager
protocol there is no way to report tasks: there, see to it that the predecessor has ended.

Endings. *left* by its own will, after everything has stopped; *fenced* because another process took its name;
*failed* because the coordinator refuses for a reason that trying again does not mend. A member that the coordinator no
longer knows is not at its end: it stops everything and joins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from airflow_provider.membership import joining, learning, reactions, staying
from airflow_provider.membership.events import (
    AssignmentComputed,
    Command,
    ConfigAdvanced,
    CoordinatorFound,
    Event,
    HeartbeatAnswered,
    Joined,
    LearnersReady,
    LearningProgressed,
    LeaveRequested,
    LeaveSoonRequested,
    Left,
    RebalanceWanted,
    RecordRead,
    RequestFailed,
    RequestRejected,
    Resumed,
    Started,
    Synced,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.membership.state import MemberState, Phase
from airflow_provider.membership.transition import Transition
from airflow_provider.protocol.model import LocalProtocolError

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Rule:
    """What an event does in a phase: its handler, and the phases in which that may end."""

    event: type[Event]
    handler: Callable[[Transition, Event], None]
    leads_to: frozenset[Phase]


def _on(event: type[E], handler: Callable[[Transition, E], None], *phases: Phase) -> Rule:
    """A handler is called with the event of its rule only; that it takes that one, is checked here."""
    return Rule(event, cast("Callable[[Transition, Event], None]", handler), frozenset(phases))


def _rules(*rules: Rule) -> Mapping[type[Event], Rule]:
    return {rule.event: rule for rule in rules}


def _late(_member: Transition, _event: Event) -> None:
    """An answer that nobody waits for any more, or news that this phase has no use for."""


def _note_config(member: Transition, event: ConfigAdvanced) -> None:
    member.set(config_offset=max(member.state.config_offset, event.config_offset))


_INITIAL = Phase.INITIAL
_UNJOINED = Phase.UNJOINED
_PREPARING = Phase.PREPARING_REBALANCE
_COMPLETING = Phase.COMPLETING_REBALANCE
_STABLE = Phase.STABLE
_LEAVING = Phase.LEAVING
_LEFT = Phase.LEFT
_FENCED = Phase.FENCED
_FAILED = Phase.FAILED


def _ended(phase: Phase) -> Mapping[type[Event], Rule]:
    return _rules(
        _on(TasksStopped, staying.on_tasks_ended_late, phase),
        _on(TasksFinished, staying.on_tasks_ended_late, phase),
        _on(CoordinatorFound, _late, phase),
        _on(RequestFailed, _late, phase),
        _on(RequestRejected, _late, phase),
        _on(Joined, _late, phase),
        _on(AssignmentComputed, _late, phase),
        _on(Synced, _late, phase),
        _on(HeartbeatAnswered, _late, phase),
        _on(RecordRead, _late, phase),
        _on(ConfigAdvanced, _late, phase),
        _on(RebalanceWanted, _late, phase),
        _on(LearningProgressed, _late, phase),
        _on(LearnersReady, _late, phase),
        _on(LeaveSoonRequested, _late, phase),
        _on(TimerFired, _late, phase),
        _on(LeaveRequested, _late, phase),
        _on(Left, _late, phase),
    )


TRANSITIONS: Mapping[Phase, Mapping[type[Event], Rule]] = {
    _INITIAL: _rules(
        _on(Started, joining.on_started, _UNJOINED),
        _on(Resumed, joining.on_resumed, _UNJOINED, _STABLE),
    ),
    _UNJOINED: _rules(
        _on(CoordinatorFound, joining.on_coordinator_found, _UNJOINED, _PREPARING),
        _on(RequestFailed, reactions.on_request_failed, _UNJOINED),
        _on(RequestRejected, reactions.on_request_rejected, _UNJOINED, _FAILED),
        _on(Joined, _late, _UNJOINED),
        _on(AssignmentComputed, _late, _UNJOINED),
        _on(Synced, _late, _UNJOINED),
        _on(HeartbeatAnswered, staying.on_heartbeat_answered, _UNJOINED, _FENCED, _FAILED),
        _on(RecordRead, joining.on_record_read, _UNJOINED),
        _on(ConfigAdvanced, _note_config, _UNJOINED),
        _on(RebalanceWanted, _late, _UNJOINED),
        _on(TasksStopped, staying.on_tasks_stopped, _UNJOINED, _PREPARING),
        _on(TasksFinished, staying.on_tasks_finished, _UNJOINED, _PREPARING),
        _on(LearningProgressed, learning.on_learning_progressed, _UNJOINED, _PREPARING),
        _on(LearnersReady, learning.on_learners_ready, _UNJOINED),
        _on(LeaveSoonRequested, learning.on_leave_soon_requested, _UNJOINED, _PREPARING),
        _on(TimerFired, staying.on_timer, _UNJOINED, _PREPARING),
        _on(LeaveRequested, staying.on_leave_requested, _LEAVING, _LEFT),
        _on(Left, _late, _UNJOINED),
    ),
    _PREPARING: _rules(
        _on(CoordinatorFound, _late, _PREPARING),
        _on(RequestFailed, reactions.on_request_failed, _PREPARING, _UNJOINED),
        _on(RequestRejected, reactions.on_request_rejected, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        _on(Joined, joining.on_joined, _PREPARING, _COMPLETING),
        _on(AssignmentComputed, _late, _PREPARING),
        _on(Synced, _late, _PREPARING),
        _on(HeartbeatAnswered, staying.on_heartbeat_answered, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        _on(RecordRead, joining.on_record_read, _PREPARING),
        _on(ConfigAdvanced, _note_config, _PREPARING),
        _on(RebalanceWanted, _late, _PREPARING),
        _on(TasksStopped, staying.on_tasks_stopped, _PREPARING),
        _on(TasksFinished, staying.on_tasks_finished, _PREPARING),
        _on(LearningProgressed, learning.on_learning_progressed, _PREPARING),
        _on(LearnersReady, learning.on_learners_ready, _PREPARING),
        _on(LeaveSoonRequested, learning.on_leave_soon_requested, _PREPARING),
        _on(TimerFired, staying.on_timer, _PREPARING),
        _on(LeaveRequested, staying.on_leave_requested, _LEAVING, _LEFT),
        _on(Left, _late, _PREPARING),
    ),
    _COMPLETING: _rules(
        _on(CoordinatorFound, _late, _COMPLETING),
        _on(RequestFailed, reactions.on_request_failed, _COMPLETING, _UNJOINED),
        _on(RequestRejected, reactions.on_request_rejected, _COMPLETING, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        _on(Joined, _late, _COMPLETING),
        _on(AssignmentComputed, joining.on_assignment_computed, _COMPLETING),
        _on(Synced, joining.on_synced, _COMPLETING, _STABLE, _PREPARING, _UNJOINED),
        _on(HeartbeatAnswered, staying.on_heartbeat_answered, _COMPLETING, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        _on(RecordRead, joining.on_record_read, _COMPLETING),
        _on(ConfigAdvanced, _note_config, _COMPLETING),
        _on(RebalanceWanted, _late, _COMPLETING),
        _on(TasksStopped, staying.on_tasks_stopped, _COMPLETING),
        _on(TasksFinished, staying.on_tasks_finished, _COMPLETING),
        _on(LearningProgressed, learning.on_learning_progressed, _COMPLETING),
        _on(LearnersReady, learning.on_learners_ready, _COMPLETING),
        _on(LeaveSoonRequested, learning.on_leave_soon_requested, _COMPLETING),
        _on(TimerFired, staying.on_timer, _COMPLETING, _UNJOINED),
        _on(LeaveRequested, staying.on_leave_requested, _LEAVING),
        _on(Left, _late, _COMPLETING),
    ),
    _STABLE: _rules(
        _on(CoordinatorFound, joining.on_coordinator_found, _STABLE, _PREPARING),
        _on(RequestFailed, reactions.on_request_failed, _STABLE),
        _on(RequestRejected, reactions.on_request_rejected, _STABLE, _FAILED),
        _on(Joined, _late, _STABLE),
        _on(AssignmentComputed, _late, _STABLE),
        _on(Synced, _late, _STABLE),
        _on(HeartbeatAnswered, staying.on_heartbeat_answered, _STABLE, _PREPARING, _UNJOINED, _FENCED, _FAILED),
        _on(RecordRead, joining.on_record_read, _STABLE, _PREPARING),
        _on(ConfigAdvanced, staying.on_config_advanced, _STABLE, _PREPARING),
        _on(RebalanceWanted, staying.on_rebalance_wanted, _STABLE, _PREPARING),
        _on(TasksStopped, staying.on_tasks_stopped, _STABLE, _PREPARING),
        _on(TasksFinished, staying.on_tasks_finished, _STABLE, _PREPARING),
        _on(LearningProgressed, learning.on_learning_progressed, _STABLE, _PREPARING),
        _on(LearnersReady, learning.on_learners_ready, _STABLE),
        _on(LeaveSoonRequested, learning.on_leave_soon_requested, _STABLE, _PREPARING),
        _on(TimerFired, staying.on_timer, _STABLE, _PREPARING),
        _on(LeaveRequested, staying.on_leave_requested, _LEAVING),
        _on(Left, _late, _STABLE),
    ),
    _LEAVING: _rules(
        _on(CoordinatorFound, staying.on_coordinator_found_while_leaving, _LEAVING, _LEFT),
        _on(RequestFailed, reactions.on_request_failed, _LEAVING),
        _on(RequestRejected, reactions.on_rejected_while_leaving, _LEAVING, _LEFT),
        _on(Joined, _late, _LEAVING),
        _on(AssignmentComputed, _late, _LEAVING),
        _on(Synced, _late, _LEAVING),
        _on(HeartbeatAnswered, staying.on_heartbeat_answered, _LEAVING, _FENCED, _FAILED),
        _on(RecordRead, _late, _LEAVING),
        _on(ConfigAdvanced, _late, _LEAVING),
        _on(RebalanceWanted, _late, _LEAVING),
        _on(TasksStopped, staying.on_task_ended_while_leaving, _LEAVING, _LEFT),
        _on(TasksFinished, staying.on_task_ended_while_leaving, _LEAVING, _LEFT),
        _on(LearningProgressed, _late, _LEAVING),
        _on(LearnersReady, _late, _LEAVING),
        _on(LeaveSoonRequested, _late, _LEAVING),
        _on(TimerFired, staying.on_timer_while_leaving, _LEAVING, _LEFT),
        _on(LeaveRequested, _late, _LEAVING),
        _on(Left, staying.on_left, _LEAVING, _LEFT),
    ),
    _LEFT: _ended(_LEFT),
    _FENCED: _ended(_FENCED),
    _FAILED: _ended(_FAILED),
}


def handle(state: MemberState, event: Event) -> tuple[MemberState, list[Command]]:
    """Take in one event.

    :return: the next state, and the commands to carry out in their order
    :raises LocalProtocolError: for an event that cannot happen in this phase: the driver's mistake
    """
    rule = TRANSITIONS[state.phase].get(type(event))
    if rule is None:
        raise LocalProtocolError(f"{type(event).__name__} while {state.phase.value}: {event}")
    member = Transition(state, event.now_ms)
    rule.handler(member, event)
    if member.state.phase not in rule.leads_to:
        after = member.state.phase.value
        raise LocalProtocolError(
            f"{type(event).__name__} while {state.phase.value} led to {after}, which its rule excludes"
        )
    member.arm()
    return member.state, member.commands
