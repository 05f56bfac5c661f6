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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from airflow_provider.declarative_membership import answers, assigning, staying
from airflow_provider.declarative_membership.events import (
    AssignmentComputed,
    AssignorsChanged,
    Command,
    ConfigAdvanced,
    DelaySet,
    Event,
    HeartbeatAnswered,
    InstallAnswered,
    LeaveRequested,
    PrepareAnswered,
    RequestFailed,
    Resumed,
    Started,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.declarative_membership.state import MembershipState, Phase
from airflow_provider.declarative_membership.transition import Transition
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


def _note_assignors(member: Transition, event: AssignorsChanged) -> None:
    member.set(assignors=event.assignors)


_INITIAL = Phase.INITIAL
_JOINING = Phase.JOINING
_STABLE = Phase.STABLE
_LEAVING = Phase.LEAVING
_LEFT = Phase.LEFT
_FENCED = Phase.FENCED
_FAILED = Phase.FAILED


def _ended(phase: Phase) -> Mapping[type[Event], Rule]:
    return _rules(
        _on(HeartbeatAnswered, _late, phase),
        _on(PrepareAnswered, _late, phase),
        _on(AssignmentComputed, _late, phase),
        _on(InstallAnswered, _late, phase),
        _on(RequestFailed, _late, phase),
        _on(DelaySet, _late, phase),
        _on(AssignorsChanged, _late, phase),
        _on(ConfigAdvanced, _late, phase),
        _on(TasksStopped, staying.on_tasks_ended_late, phase),
        _on(TasksFinished, staying.on_tasks_ended_late, phase),
        _on(LeaveRequested, _late, phase),
        _on(TimerFired, _late, phase),
    )


TRANSITIONS: Mapping[Phase, Mapping[type[Event], Rule]] = {
    _INITIAL: _rules(
        _on(Started, staying.on_started, _JOINING),
        _on(Resumed, staying.on_resumed, _JOINING, _STABLE),
    ),
    _JOINING: _rules(
        _on(HeartbeatAnswered, answers.on_heartbeat_answered, _JOINING, _STABLE, _FENCED, _FAILED),
        _on(PrepareAnswered, _late, _JOINING),
        _on(AssignmentComputed, _late, _JOINING),
        _on(InstallAnswered, _late, _JOINING),
        _on(RequestFailed, answers.on_request_failed, _JOINING),
        _on(DelaySet, _late, _JOINING),
        _on(AssignorsChanged, _note_assignors, _JOINING),
        _on(ConfigAdvanced, staying.on_config_advanced, _JOINING),
        _on(TasksStopped, staying.on_tasks_stopped, _JOINING),
        _on(TasksFinished, staying.on_tasks_finished, _JOINING),
        _on(LeaveRequested, staying.on_leave_requested, _LEAVING, _LEFT),
        _on(TimerFired, staying.on_timer, _JOINING),
    ),
    _STABLE: _rules(
        _on(HeartbeatAnswered, answers.on_heartbeat_answered, _STABLE, _JOINING, _FENCED, _FAILED),
        _on(PrepareAnswered, assigning.on_prepare_answered, _STABLE),
        _on(AssignmentComputed, assigning.on_assignment_computed, _STABLE),
        _on(InstallAnswered, assigning.on_install_answered, _STABLE),
        _on(RequestFailed, answers.on_request_failed, _STABLE),
        _on(DelaySet, staying.on_delay_set, _STABLE),
        _on(AssignorsChanged, staying.on_assignors_changed, _STABLE),
        _on(ConfigAdvanced, staying.on_config_advanced, _STABLE),
        _on(TasksStopped, staying.on_tasks_stopped, _STABLE),
        _on(TasksFinished, staying.on_tasks_finished, _STABLE),
        _on(LeaveRequested, staying.on_leave_requested, _LEAVING),
        _on(TimerFired, staying.on_timer, _STABLE),
    ),
    _LEAVING: _rules(
        _on(HeartbeatAnswered, staying.on_answer_while_leaving, _LEAVING, _LEFT, _FENCED, _FAILED),
        _on(PrepareAnswered, _late, _LEAVING),
        _on(AssignmentComputed, _late, _LEAVING),
        _on(InstallAnswered, _late, _LEAVING),
        _on(RequestFailed, staying.on_failed_while_leaving, _LEAVING),
        _on(DelaySet, _late, _LEAVING),
        _on(AssignorsChanged, _note_assignors, _LEAVING),
        _on(ConfigAdvanced, _late, _LEAVING),
        _on(TasksStopped, staying.on_task_ended_while_leaving, _LEAVING),
        _on(TasksFinished, staying.on_task_ended_while_leaving, _LEAVING),
        _on(LeaveRequested, _late, _LEAVING),
        _on(TimerFired, staying.on_timer_while_leaving, _LEAVING, _LEFT),
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
