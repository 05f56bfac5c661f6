"""The last events of a state machine, to find out how it got to where it is."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import fields
from enum import Enum
from typing import Final

from airflow_provider.values.model import TaskId

_KEPT: Final = 30
"""Lines, enough for a few rounds. A triggerer keeps them for each of thousands of memberships."""
_TEXT: Final = 120
_TASKS: Final = 6
_CLOCKS: Final = ("now_ms", "wall_ms")
_NAMED_BY: Final = ("task", "epoch", "member_epoch", "error_code")
_SHORT: Final = (str, int, float, type(None))


class Story:
    """Keeps the last events and the resulting commands, a line each."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, where: str, event: object, commands: Iterable[object]) -> None:
        """Keep an event and its commands; both are data classes.

        :param where: when it came, and where the machine stood
        """
        self._lines.append(f"{where}: {_line(event)}")
        self._lines.extend(f"    {_line(command)}" for command in commands)
        del self._lines[:-_KEPT]

    def __str__(self) -> str:
        return "\n".join(self._lines)


def _line(thing: object) -> str:
    named = ((field.name, getattr(thing, field.name)) for field in fields(thing))  # type: ignore[arg-type]
    return f"{type(thing).__name__}({', '.join(f'{name}={_value(it)}' for name, it in named if name not in _CLOCKS)})"


def _value(value: object) -> str:
    """A short text, without what may be large or secret: metadata, assignments, records, configurations."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, TaskId):
        return str(value)
    if isinstance(value, _SHORT):
        text = repr(value)
        return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, frozenset):
        return _tasks(value)
    if isinstance(value, Sized):
        return f"<{len(value)}>"
    named = [f" {name}={_value(getattr(value, name))}" for name in _NAMED_BY if hasattr(value, name)]
    return f"<{type(value).__name__}{''.join(named)}>"


def _tasks(tasks: frozenset[object]) -> str:
    shown = ", ".join(sorted(map(str, tasks))[:_TASKS])
    return f"{{{shown}{', ...' if len(tasks) > _TASKS else ''}}}"
