"""How the machines of memberships are written: a table of what an event does in a phase, and the state meanwhile."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from airflow_provider.protocol.member_events import ArmTimer, Command, Event
from airflow_provider.protocol.member_settings import CommonSettings
from airflow_provider.protocol.model import ConfigOffset, LocalProtocolError, Tasks

if TYPE_CHECKING:
    from typing_extensions import Self


class MachineState(Protocol):
    """The state of a membership: a frozen value."""

    @property
    def settings(self) -> CommonSettings: ...

    @property
    def phase(self) -> Enum:
        """Where the member stands; ``left``, ``fenced`` and ``failed`` are its ends."""

    @property
    def seq(self) -> int:
        """The number of the last request."""

    @property
    def attempts(self) -> int:
        """How many requests have failed one after the other."""

    @property
    def config_offset(self) -> ConfigOffset:
        """How far the jobs topic has been read."""

    @property
    def owned(self) -> Tasks:
        """What the member has: running, held back, or stopping."""

    @property
    def lease_until(self) -> int | None:
        """No other member can be given these before then."""

    @property
    def armed_at(self) -> int | None:
        """The time that was asked for last."""

    def changed(self, changes: Any) -> Self:
        """A copy with some fields changed."""

    def next_deadline(self) -> int | None:
        """When the member wants to be called again if nothing else happens."""


S = TypeVar("S", bound=MachineState)


class Changing(Generic[S]):
    """The state before and, step by step, after an event; and the commands that come out.

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
        """The state after the last step. Made when somebody looks: several changes make one new state."""
        if self._changes:
            self._state, self._changes = self._state.changed(self._changes), {}
        return self._state

    def do(self, command: Command) -> None:
        self.commands.append(command)

    def next_seq(self) -> int:
        """The number of another request."""
        seq = self.state.seq + 1
        self._changes["seq"] = seq
        return seq

    def next_try_at(self) -> int:
        """A request has failed, and is tried again then: after twice as long each time, spread by the worker's name."""
        settings, attempts = self.state.settings, self.state.attempts
        wait = min(settings.retry_backoff_max_ms, settings.retry_backoff_ms << min(attempts, 20))
        spread = zlib.crc32(f"{settings.worker}/{attempts}".encode()) % 400 - 200
        self._changes["attempts"] = attempts + 1
        return self.now + wait + wait * spread // 1000

    def arm(self) -> None:
        """Ask to be called when the next thing is due, if that is another time than the one asked for."""
        due = self.state.next_deadline()
        if due is not None and due != self.state.armed_at:
            self._changes["armed_at"] = due
            self.do(ArmTimer(at_ms=due))


E = TypeVar("E", bound=Event)
M = TypeVar("M", bound=Changing[Any])
P = TypeVar("P", bound=Enum)


@dataclass(frozen=True, slots=True)
class Rule(Generic[M, P]):
    """What an event does in a phase: its handler, and the phases in which that may end."""

    event: type[Event]
    handler: Callable[[M, Event], None]
    leads_to: frozenset[P]


Rules = Mapping[type[Event], Rule[M, P]]
"""Of a phase, by what they are about."""


def on(event: type[E], handler: Callable[[M, E], None], *phases: P) -> Rule[M, P]:
    """A handler is called with the event of its rule only; that it takes that one, is checked here."""
    return Rule(event, cast("Callable[[M, Event], None]", handler), frozenset(phases))


def rules(*of_phase: Rule[M, P]) -> Rules[M, P]:
    return {rule.event: rule for rule in of_phase}


def late(_member: Changing[Any], _event: Event) -> None:
    """An answer that nobody waits for any more, or news that this phase has no use for."""


def apply(table: Mapping[P, Rules[M, P]], member: M, event: Event) -> None:
    """Do what the table says, and see that it ends where the table says.

    :raises LocalProtocolError: for an event that cannot happen in this phase: the driver's mistake
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
