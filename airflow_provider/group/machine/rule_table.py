"""The frame of member machines: a table of what each event does in each phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from airflow_provider.group.machine.events import Event, TasksFinished, TasksStopped
from airflow_provider.group.machine.transition import CommonTransition
from airflow_provider.values.model import LocalProtocolError

E = TypeVar("E", bound=Event)
M = TypeVar("M", bound=CommonTransition[Any])
P = TypeVar("P", bound=Enum)


@dataclass(frozen=True, slots=True)
class Rule(Generic[M, P]):
    """What an event does in a phase: its handler, and the phases in which the member may be afterwards."""

    event: type[Event]
    handler: Callable[[M, Event], None]
    leads_to: frozenset[P]


Rules = Mapping[type[Event], Rule[M, P]]
"""The rules of one phase, by the type of the event."""


def on(event: type[E], handler: Callable[[M, E], None], *phases: P) -> Rule[M, P]:
    """A rule. Its handler is only called with events of this type; the type variable lets mypy check that."""
    return Rule(event, cast("Callable[[M, Event], None]", handler), frozenset(phases))


def rules(*of_phase: Rule[M, P]) -> Rules[M, P]:
    return {rule.event: rule for rule in of_phase}


def late(_member: CommonTransition[Any], _event: Event) -> None:
    """Ignore an answer that is no longer awaited, or news of no use in this phase."""


def on_tasks_ended_late(member: CommonTransition[Any], event: TasksStopped | TasksFinished) -> None:
    """Release tasks; a membership that has ended has nothing else to do."""
    member.released(event.tasks)


def ended(phase: P, *events: type[Event]) -> Rules[Any, P]:
    """The rules of a phase in which the membership has ended.

    :param events: those that may still come
    """
    return rules(
        on(TasksStopped, on_tasks_ended_late, phase),
        on(TasksFinished, on_tasks_ended_late, phase),
        *(on(event, late, phase) for event in events),
    )


def apply(table: Mapping[P, Rules[M, P]], member: M, event: Event) -> None:
    """Handle an event as the table says, and check that the phase afterwards is one that the rule allows.

    :raises LocalProtocolError: for an event that can't happen in this phase: a bug in the caller
    """
    before = member.state.phase
    rule = table[before].get(type(event))
    if rule is None:
        raise LocalProtocolError(f"{type(event).__name__} while {before.value}: {event}")
    rule.handler(member, event)
    after = member.state.phase
    if after not in rule.leads_to:
        raise LocalProtocolError(
            f"{type(event).__name__} while {before.value} led to {after.value}, which its rule excludes"
        )
    member.arm()
