"""The last events of a membership, to find out how it got to where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import fields
from enum import Enum
from typing import Final

from airflow_provider.group.classic.member.events import HeartbeatAnswered, SendHeartbeat
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.machine.events import ArmTimer, Command, Event, TimerFired
from airflow_provider.state.rounds.record import GroupRecord
from airflow_provider.values.error_codes import KafkaErrorCode
from airflow_provider.values.model import TaskId

_KEPT: Final = 30
"""Lines, enough for a few rounds. A triggerer keeps them for each of thousands of memberships."""
_TEXT: Final = 120
_TASKS: Final = 6


class RecentEvents:
    """Keeps the last events and the resulting commands, a line each, without routine ones."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, event: Event, before: Phase, after: Phase, commands: Iterable[Command]) -> None:
        """Keep an event, the member's phases around it, and the resulting commands."""
        commands = tuple(commands)
        if before is after and _is_routine(event, commands):
            return
        phases = before.value if before is after else f"{before.value} -> {after.value}"
        self._lines.append(f"{event.now_ms} ms, {phases}: {_line(event)}")
        self._lines.extend(f"    {_line(command)}" for command in commands if not isinstance(command, ArmTimer))
        del self._lines[:-_KEPT]

    def __str__(self) -> str:
        return "\n".join(self._lines)


def _is_routine(event: Event, commands: Iterable[Command]) -> bool:
    if isinstance(event, HeartbeatAnswered) and event.error is not KafkaErrorCode.NONE:
        return False
    return isinstance(event, (HeartbeatAnswered, TimerFired)) and all(
        isinstance(command, (ArmTimer, SendHeartbeat)) for command in commands
    )


def _line(thing: Event | Command) -> str:
    named = ((field.name, getattr(thing, field.name)) for field in fields(thing) if field.name != "now_ms")
    return f"{type(thing).__name__}({', '.join(f'{name}={_value(value)}' for name, value in named)})"


def _value(value: object) -> str:
    """A short text, without what may be large: metadata, assignments, records."""
    match value:
        case Enum():
            return value.name
        case GroupRecord():
            return f"<epoch {value.epoch}>"
        case bytes():
            return f"<{len(value)} bytes>"
        case frozenset():
            return _tasks(value)
        case Mapping() | tuple() if not isinstance(value, TaskId):
            assert isinstance(value, Sized)
            return f"<{len(value)}>"
    text = repr(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."


def _tasks(tasks: frozenset[object]) -> str:
    shown = ", ".join(sorted(map(str, tasks))[:_TASKS])
    return f"{{{shown}{', ...' if len(tasks) > _TASKS else ''}}}"
