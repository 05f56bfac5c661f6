"""The last events of a state machine, to find out how it got to where it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sized
from dataclasses import fields
from enum import Enum
from typing import Any, Final

from airflow_provider.values.model import TaskId

_KEPT: Final = 30
"""Lines, enough for a few rounds. A triggerer keeps them for each of thousands of memberships."""
_TEXT: Final = 120
_TASKS: Final = 6
_CLOCKS: Final = ("now_ms", "wall_ms")
_NAMED_BY: Final = ("task", "epoch", "member_epoch", "error_code")
_SHORT: Final = (str, int, float, type(None))

Show = Callable[[Any], str]


class Story:
    """Keeps the last events and the resulting commands, a line each. They are texts, because the values may be large.

    A worker adds to it with each step of each task. So how a value is shown is found out once for each class.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)

    def add(self, where: str, event: object, commands: Iterable[object]) -> None:
        """Keep an event and its commands; both are data classes.

        :param where: when it came, and where the machine stood
        """
        self._lines.append(f"{where}: {_line(event)}")
        for command in commands:
            self._lines.append(f"    {_line(command)}")

    def __str__(self) -> str:
        return "\n".join(self._lines)


_NAMES: Final[dict[type, tuple[str, ...]]] = {}
_SHOWN: Final[dict[type, Show]] = {}


def _line(thing: Any) -> str:
    kind = type(thing)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(thing) if field.name not in _CLOCKS)
    return f"{kind.__name__}({', '.join([f'{name}={_value(getattr(thing, name))}' for name in names])})"


def _value(value: object) -> str:
    """A short text, without what may be large or secret: metadata, assignments, records, configurations."""
    kind = type(value)
    show = _SHOWN.get(kind)
    if show is None:
        show = _SHOWN[kind] = _shown(kind)
    return show(value)


def _shown(kind: type) -> Show:
    """How the values of this class are shown."""
    if issubclass(kind, Enum):
        return lambda value: str(value.name)
    if issubclass(kind, TaskId):
        return str
    if issubclass(kind, _SHORT):
        return _text
    if issubclass(kind, bytes):
        return lambda value: f"<{len(value)} bytes>"
    if issubclass(kind, frozenset):
        return _tasks
    if issubclass(kind, Sized):
        return lambda value: f"<{len(value)}>"
    names = [name for name in _NAMED_BY if hasattr(kind, name)]
    return lambda value: f"<{kind.__name__}{''.join([f' {name}={_value(getattr(value, name))}' for name in names])}>"


def _text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."


def _tasks(tasks: frozenset[object]) -> str:
    shown = ", ".join(sorted(map(str, tasks))[:_TASKS])
    return f"{{{shown}{', ...' if len(tasks) > _TASKS else ''}}}"
