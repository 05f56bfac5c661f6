"""The frame of member machines: a table of what each event does in each phase, and the state while one is handled."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from airflow_provider.group.machine.events import ArmTimer, Command, Event
from airflow_provider.group.machine.state import CommonState
from airflow_provider.values.model import LocalProtocolError

S = TypeVar("S", bound=CommonState)


class Changing(Generic[S]):
    """The state while an event is handled, and the resulting commands.

    Steps change the state and add commands. They never read a clock: ``now`` is the event's.
    """

    __slots__ = ("_changes", "_state", "commands", "now")

    def __init__(self, state: S, now_ms: int) -> None:
        self._state = state
        self._changes: dict[str, object] = {}
        self.now = now_ms
        self.commands: list[Command] = []

    @property
    def state(self) -> S:
        """The state after the last step. It is made on demand, so that several changes make one new value."""
        if self._changes:
            self._state, self._changes = self._state.changed(self._changes), {}
        return self._state

    def do(self, command: Command) -> None:
        """Add a command."""
        self.commands.append(command)

    def next_seq(self) -> int:
        """Number another request."""
        seq = self.state.seq + 1
        self._changes["seq"] = seq
        return seq

    def next_try_at(self) -> int:
        """Count a failed request, and return when to try it again.

        The wait doubles with each failure. It is spread by up to 20 % by the worker's name, so that not all workers try
        at the same time.
        """
        settings, attempts = self.state.settings, self.state.attempts
        wait = min(settings.retry_backoff_max_ms, settings.retry_backoff_ms << min(attempts, 20))
        spread = zlib.crc32(f"{settings.worker}/{attempts}".encode()) % 400 - 200
        self._changes["attempts"] = attempts + 1
        return self.now + wait + wait * spread // 1000

    def arm(self) -> None:
        """Ask for a timer at the next deadline, if it is not the one that was asked for already."""
        due = self.state.next_deadline()
        if due is not None and due != self.state.armed_at:
            self._changes["armed_at"] = due
            self.do(ArmTimer(at_ms=due))


E = TypeVar("E", bound=Event)
M = TypeVar("M", bound=Changing[Any])
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
    """The rules of one phase, as the table has them."""
    return {rule.event: rule for rule in of_phase}


def late(_member: Changing[Any], _event: Event) -> None:
    """Ignore an answer that is no longer awaited, or news of no use in this phase."""


def apply(table: Mapping[P, Rules[M, P]], member: M, event: Event) -> None:
    """Handle an event as the table says, and check that the phase afterwards is one that the rule allows.

    :raises LocalProtocolError: for an event that can't happen in this phase: a bug in the driver
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
