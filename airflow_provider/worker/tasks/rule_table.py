"""How the tables of this package are written and applied: what an event does to a task in a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.events import Event
from airflow_provider.worker.tasks.state import Execution, ImpossibleEventError

State = TypeVar("State", bound=Enum)
Handler = Callable[[Execution, TaskId, Any], None]


@dataclass(frozen=True, slots=True)
class Rule(Generic[State]):
    """What an event does to a task in a state: the handler, and the states that may follow (None: not here)."""

    handler: Handler
    leads_to: frozenset[State | None]


Table = Mapping["State | None", Mapping[type[Event], Rule[State]]]


def to(handler: Handler, *states: State | None) -> Rule[State]:
    """A row's entry."""
    return Rule(handler, frozenset(states))


def late(_x: Execution, _task: TaskId, _event: Event) -> None:
    """An event that comes too late, or that has no meaning in this state."""


def all_late(state: State | None, *events: Iterable[type[Event]]) -> dict[type[Event], Rule[State]]:
    """None of these events has a meaning in this state."""
    return {event: to(late, state) for some in events for event in some}


def apply(
    table: Table[State], state_of: Callable[[TaskId], State | None], x: Execution, task: TaskId, event: Event
) -> None:
    """Do what the table says, and check that the task is then in one of the states that the table allows.

    :raises ImpossibleEventError: if the table has no such event for this state, or the next state is not allowed
    """
    before = state_of(task)
    rule = table[before].get(type(event))
    if rule is None:
        said = x.settings.mask(str(event))
        raise ImpossibleEventError(f"{type(event).__name__} of task {task}, which is {_name(before)}: {said}")
    rule.handler(x, task, event)
    after = state_of(task)
    if after not in rule.leads_to:
        raise ImpossibleEventError(
            f"{type(event).__name__} of task {task}, which was {_name(before)}, led to {_name(after)}, which its rule"
            " excludes"
        )


def _name(state: Enum | None) -> str:
    return "not here" if state is None else str(state.value)
