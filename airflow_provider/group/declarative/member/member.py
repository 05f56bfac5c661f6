"""The member of a declarative group, as a state machine without I/O: events in, commands out.

This package decides everything that a member does in KIP-848's protocol for Connect (ConnectGroupHeartbeat,
ConnectGroupPrepareAssignment, ConnectGroupInstallAssignment). :func:`handle` takes the state and an event, and returns
the next state and the commands to carry out. It reads no clock and runs no task: its caller
(``group/live/declarative/declarative_member.py``, or a test) does that, and feeds the results back as events.

Theory of operation
===================

*No rounds.* A member sends heartbeats, one at a time, and each answer says which tasks it may have. It never waits for
all other members, only for tasks that are to be its own and that another member still has.

*Joining.* The first heartbeat has epoch 0 and contains all fields. So does each heartbeat after an error, or if the one
before was not answered. All others contain what has changed; null means unchanged. The answer contains an epoch, which
the next heartbeat repeats, and grants a session and an interval.

*Assignments.* An answer with an assignment names all tasks that the member may have. The member keeps those that it
has. Tasks that it has and that are not named are revoked: they are stopped, and when all of them have stopped, the next
heartbeat says so immediately. Otherwise the new tasks are started. The coordinator never does both in one answer; if a
faulty one does, this member does one after the other.

*Lost answers.* Only the answer to the last heartbeat counts. By sending another heartbeat, a member gives up the one
before. If an answer is lost or late, the coordinator decides again when it is told what the member owns.

*Computing.* A member that is answered with COMPUTE_ASSIGNMENT asks for the group's state, runs its assignor, and
installs the result (:mod:`~.assigning`). Its heartbeats go on in the meantime.

*The delay.* If the assignor delays tasks, it says when it must run again. At that time the member that has computed
says so by its assignor's metadata, which begins a new group epoch. If this member leaves earlier, that begins one, too.

*Held tasks.* A task is *held*, that is, not started yet, while this member has not read the jobs topic as far as is
needed; while its lease may be over; and, if the member has taken over the name of a process that may still run, until
that process's lease must be over.

*The lease.* No other member is given this one's tasks before a session has passed since the sending of the last
answered heartbeat. Shortly before that, the member stops all its tasks by itself. They remain its own: if a heartbeat
is answered normally after all, they start again.

*Static members* (KIP-345). The worker's name is the instance id. A member generates its member id itself, and keeps it.
A member that joins under the name of another one takes its place, and is assigned its tasks. While the former one may
still run them, the new one does not say what it owns, because this would acknowledge that tasks of the former one have
stopped. It does not leave in this time either. If it is asked to leave before it has joined, it just ends.

*Endings.* A member has *left* when it was asked to and everything has stopped; it is *fenced* when another process has
taken its name; it has *failed* when the coordinator refuses for a reason that does not go away. If the coordinator does
not know a member any more, or not in its epoch, the member does not end: it stops everything and joins again, with the
same member id and epoch 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.group.declarative.member import answers, assigning, heartbeats
from airflow_provider.group.declarative.member.events import (
    AssignmentComputed,
    AssignorsChanged,
    DelaySet,
    HeartbeatAnswered,
    InstallAnswered,
    PrepareAnswered,
    RequestFailed,
    Resumed,
    Started,
    TasksDue,
)
from airflow_provider.group.declarative.member.state import MembershipState, Phase
from airflow_provider.group.declarative.member.transition import Transition
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


def _note_assignors(member: Transition, event: AssignorsChanged) -> None:
    member.set(assignors=event.assignors)


_INITIAL = Phase.INITIAL
_JOINING = Phase.JOINING
_STABLE = Phase.STABLE
_LEAVING = Phase.LEAVING
_LEFT = Phase.LEFT
_FENCED = Phase.FENCED
_FAILED = Phase.FAILED


_LATE: Final = (
    HeartbeatAnswered,
    PrepareAnswered,
    AssignmentComputed,
    InstallAnswered,
    RequestFailed,
    DelaySet,
    AssignorsChanged,
    ConfigAdvanced,
    TasksDue,
    LeaveRequested,
    TimerFired,
)
"""The events that may still come when the membership has ended, and mean nothing then."""

TRANSITIONS: Mapping[Phase, Rules[Transition, Phase]] = {
    _INITIAL: rules(
        on(Started, heartbeats.on_started, _JOINING),
        on(Resumed, heartbeats.on_resumed, _JOINING, _STABLE),
    ),
    _JOINING: rules(
        on(HeartbeatAnswered, answers.on_heartbeat_answered, _JOINING, _STABLE, _FENCED, _FAILED),
        on(PrepareAnswered, late, _JOINING),
        on(AssignmentComputed, late, _JOINING),
        on(InstallAnswered, late, _JOINING),
        on(RequestFailed, answers.on_request_failed, _JOINING),
        on(DelaySet, late, _JOINING),
        on(AssignorsChanged, _note_assignors, _JOINING),
        on(ConfigAdvanced, heartbeats.on_config_advanced, _JOINING),
        on(TasksStopped, heartbeats.on_tasks_stopped, _JOINING),
        on(TasksFinished, heartbeats.on_tasks_finished, _JOINING),
        on(TasksDue, late, _JOINING),
        on(LeaveRequested, heartbeats.on_leave_requested, _LEAVING, _LEFT),
        on(TimerFired, heartbeats.on_timer, _JOINING),
    ),
    _STABLE: rules(
        on(HeartbeatAnswered, answers.on_heartbeat_answered, _STABLE, _JOINING, _FENCED, _FAILED),
        on(PrepareAnswered, assigning.on_prepare_answered, _STABLE),
        on(AssignmentComputed, assigning.on_assignment_computed, _STABLE),
        on(InstallAnswered, assigning.on_install_answered, _STABLE),
        on(RequestFailed, answers.on_request_failed, _STABLE),
        on(DelaySet, heartbeats.on_delay_set, _STABLE),
        on(AssignorsChanged, heartbeats.on_assignors_changed, _STABLE),
        on(ConfigAdvanced, heartbeats.on_config_advanced, _STABLE),
        on(TasksStopped, heartbeats.on_tasks_stopped, _STABLE),
        on(TasksFinished, heartbeats.on_tasks_finished, _STABLE),
        on(TasksDue, heartbeats.on_tasks_due, _STABLE),
        on(LeaveRequested, heartbeats.on_leave_requested, _LEAVING),
        on(TimerFired, heartbeats.on_timer, _STABLE),
    ),
    _LEAVING: rules(
        on(HeartbeatAnswered, heartbeats.on_answer_while_leaving, _LEAVING, _LEFT, _FENCED, _FAILED),
        on(PrepareAnswered, late, _LEAVING),
        on(AssignmentComputed, late, _LEAVING),
        on(InstallAnswered, late, _LEAVING),
        on(RequestFailed, heartbeats.on_failed_while_leaving, _LEAVING),
        on(DelaySet, late, _LEAVING),
        on(AssignorsChanged, _note_assignors, _LEAVING),
        on(ConfigAdvanced, late, _LEAVING),
        on(TasksStopped, heartbeats.on_task_ended_while_leaving, _LEAVING),
        on(TasksFinished, heartbeats.on_task_ended_while_leaving, _LEAVING),
        on(TasksDue, late, _LEAVING),
        on(LeaveRequested, late, _LEAVING),
        on(TimerFired, heartbeats.on_timer_while_leaving, _LEAVING, _LEFT),
    ),
    _LEFT: ended(_LEFT, *_LATE),
    _FENCED: ended(_FENCED, *_LATE),
    _FAILED: ended(_FAILED, *_LATE),
}


def handle(state: MembershipState, event: Event) -> tuple[MembershipState, list[Command]]:
    """Handle one event.

    :return: the next state, and the commands to carry out, in this order
    :raises LocalProtocolError: the event can't happen in this phase; this is a bug in the caller
    """
    member = Transition(state, event.now_ms)
    apply(TRANSITIONS, member, event)
    return member.state, member.commands
