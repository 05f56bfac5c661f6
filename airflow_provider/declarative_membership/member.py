"""The member of a declarative group, as a state machine without I/O: events in, commands out.

Everything that a member does in KIP-848's protocol for Connect (ConnectGroupHeartbeat, ConnectGroupPrepareAssignment,
ConnectGroupInstallAssignment) is decided in this package. :func:`handle` takes the state and an event, and gives the
next state and the commands to carry out. It reads no clock and starts no task; what drives it
(``group/declarative_member.py``, or a test) does, and feeds the results back as events.

Theory of operation
===================

No rounds. A member sends heartbeats, one at a time, and each answer says what it may have. Nobody waits for everybody:
how far the others are shows only in tasks that are not assigned yet, since somebody still has them.

Joining. The first heartbeat has epoch 0 and says everything; so does each one after an error or without an answer to
the one before. The others say what has changed: null is unchanged. The answer names an epoch, which the next heartbeat
says again, and grants a session and an interval.

An answer with an assignment names all that the member may have. What it has of that, it keeps. If it has something
else, that is revoked: it stops, and when all of it has stopped the next heartbeat says so, immediately. Otherwise what
is new is started. The coordinator never does both in one answer, and what a broken one does, this member does one after
the other.

An answer counts if it is to the last heartbeat sent. To send another one is to give up the one before: whatever was
decided in an answer that got lost, or comes late, the coordinator decides again when it hears what the member owns.

Computing. Who is answered with COMPUTE_ASSIGNMENT asks for the group's state, runs its assignor, and installs what
comes of it (:mod:`~.assigning`), while its heartbeats go on.

The delay. Where the assignor leaves tasks to nobody, it says when it is to be asked again. The member that has computed
says so by its assignor's metadata when the time has come, which makes a new group epoch. If that member goes before,
that makes one, too.

What is not started immediately. A task is *held* while this member has not read the jobs topic as far as is needed;
while it can't be sure that its lease is valid; and, when it took over the name of a process that may still run, until
that one's lease must be over.

The lease. Nobody else is given this member's tasks before a session has passed since the sending of the last heartbeat
that was answered. Shortly before that, it stops them all by itself. They stay its own: when a heartbeat is answered
after all, as if nothing had been, they start again.

Static members (KIP-345). The worker's name is the instance id. A member generates its id itself, and keeps it. Who
joins under a name that another member has takes that one's place, and is assigned what it had. As long as that one may
run it, the newcomer does not say what it owns: it would acknowledge for the other what that has not stopped. Nor does
it leave before; asked to leave before it has joined, it just ends.

Endings. *left* by its own will, after everything has stopped; *fenced* because another process took its name; *failed*
because the coordinator refuses for a reason that trying again does not mend. A member that the coordinator no longer
knows, or not in its epoch, is not at its end: it stops everything and joins again, as the same member with epoch 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.declarative_membership import answers, assigning, staying
from airflow_provider.declarative_membership.events import (
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
from airflow_provider.declarative_membership.state import MembershipState, Phase
from airflow_provider.declarative_membership.transition import Transition
from airflow_provider.protocol.member_events import (
    Command,
    ConfigAdvanced,
    Event,
    LeaveRequested,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.protocol.member_machine import Rules, apply, late, on, rules


def _note_assignors(member: Transition, event: AssignorsChanged) -> None:
    member.set(assignors=event.assignors)


_INITIAL = Phase.INITIAL
_JOINING = Phase.JOINING
_STABLE = Phase.STABLE
_LEAVING = Phase.LEAVING
_LEFT = Phase.LEFT
_FENCED = Phase.FENCED
_FAILED = Phase.FAILED


def _ended(phase: Phase) -> Rules[Transition, Phase]:
    return rules(
        on(HeartbeatAnswered, late, phase),
        on(PrepareAnswered, late, phase),
        on(AssignmentComputed, late, phase),
        on(InstallAnswered, late, phase),
        on(RequestFailed, late, phase),
        on(DelaySet, late, phase),
        on(AssignorsChanged, late, phase),
        on(ConfigAdvanced, late, phase),
        on(TasksStopped, staying.on_tasks_ended_late, phase),
        on(TasksFinished, staying.on_tasks_ended_late, phase),
        on(TasksDue, late, phase),
        on(LeaveRequested, late, phase),
        on(TimerFired, late, phase),
    )


TRANSITIONS: Mapping[Phase, Rules[Transition, Phase]] = {
    _INITIAL: rules(
        on(Started, staying.on_started, _JOINING),
        on(Resumed, staying.on_resumed, _JOINING, _STABLE),
    ),
    _JOINING: rules(
        on(HeartbeatAnswered, answers.on_heartbeat_answered, _JOINING, _STABLE, _FENCED, _FAILED),
        on(PrepareAnswered, late, _JOINING),
        on(AssignmentComputed, late, _JOINING),
        on(InstallAnswered, late, _JOINING),
        on(RequestFailed, answers.on_request_failed, _JOINING),
        on(DelaySet, late, _JOINING),
        on(AssignorsChanged, _note_assignors, _JOINING),
        on(ConfigAdvanced, staying.on_config_advanced, _JOINING),
        on(TasksStopped, staying.on_tasks_stopped, _JOINING),
        on(TasksFinished, staying.on_tasks_finished, _JOINING),
        on(TasksDue, late, _JOINING),
        on(LeaveRequested, staying.on_leave_requested, _LEAVING, _LEFT),
        on(TimerFired, staying.on_timer, _JOINING),
    ),
    _STABLE: rules(
        on(HeartbeatAnswered, answers.on_heartbeat_answered, _STABLE, _JOINING, _FENCED, _FAILED),
        on(PrepareAnswered, assigning.on_prepare_answered, _STABLE),
        on(AssignmentComputed, assigning.on_assignment_computed, _STABLE),
        on(InstallAnswered, assigning.on_install_answered, _STABLE),
        on(RequestFailed, answers.on_request_failed, _STABLE),
        on(DelaySet, staying.on_delay_set, _STABLE),
        on(AssignorsChanged, staying.on_assignors_changed, _STABLE),
        on(ConfigAdvanced, staying.on_config_advanced, _STABLE),
        on(TasksStopped, staying.on_tasks_stopped, _STABLE),
        on(TasksFinished, staying.on_tasks_finished, _STABLE),
        on(TasksDue, staying.on_tasks_due, _STABLE),
        on(LeaveRequested, staying.on_leave_requested, _LEAVING),
        on(TimerFired, staying.on_timer, _STABLE),
    ),
    _LEAVING: rules(
        on(HeartbeatAnswered, staying.on_answer_while_leaving, _LEAVING, _LEFT, _FENCED, _FAILED),
        on(PrepareAnswered, late, _LEAVING),
        on(AssignmentComputed, late, _LEAVING),
        on(InstallAnswered, late, _LEAVING),
        on(RequestFailed, staying.on_failed_while_leaving, _LEAVING),
        on(DelaySet, late, _LEAVING),
        on(AssignorsChanged, _note_assignors, _LEAVING),
        on(ConfigAdvanced, late, _LEAVING),
        on(TasksStopped, staying.on_task_ended_while_leaving, _LEAVING),
        on(TasksFinished, staying.on_task_ended_while_leaving, _LEAVING),
        on(TasksDue, late, _LEAVING),
        on(LeaveRequested, late, _LEAVING),
        on(TimerFired, staying.on_timer_while_leaving, _LEAVING, _LEFT),
    ),
    _LEFT: _ended(_LEFT),
    _FENCED: _ended(_FENCED),
    _FAILED: _ended(_FAILED),
}


def handle(state: MembershipState, event: Event) -> tuple[MembershipState, list[Command]]:
    """Take in one event.

    :return: the next state, and the commands to carry out in their order
    :raises LocalProtocolError: for an event that cannot happen in this phase: the driver's mistake
    """
    member = Transition(state, event.now_ms)
    apply(TRANSITIONS, member, event)
    return member.state, member.commands
