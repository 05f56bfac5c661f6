"""Checks that a value is plain JSON, so that it can be written into a topic."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 64
MAX_INTEGER_BITS: Final = 2_048
"""617 digits. Python may be set to read no more than 640 (``sys.set_int_max_str_digits``), and by default refuses to
write more than 4,300.
"""

_MOST_SHOWN: Final = 100
_MEASURED: Final = 16
"""How many times too long a value may be for its length to be told. To write a longer one as JSON would take memory,
and no other thread could run meanwhile.
"""


class NotJsonError(Exception):
    """JSON can't carry a value; the message says where it is and what it is."""


def to_json_value(value: object) -> Any:
    """``value`` as it will be read back from a topic: with lists for tuples, and nothing shared with the original.

    :raises NotJsonError: for what JSON can't carry, including NaN and keys that are not strings; says where it is
    """
    return json.loads(_to_json(value, _Room(math.inf)))


def to_small_json_value(value: object, max_bytes: int) -> Any:
    """As :func:`to_json_value`, for a value that has to fit into a record.

    :raises NotJsonError: also if its JSON has more than ``max_bytes`` bytes
    """
    text = _to_json(value, _Room(_MEASURED * max_bytes))
    if len(text) > max_bytes:
        raise NotJsonError(f"$ has {len(text)} bytes as JSON, more than the {max_bytes} that a record has room for")
    return json.loads(text)


@dataclass(slots=True)
class _Room:
    """How many more bytes of JSON there may be."""

    left: float

    def take(self, least: int) -> None:
        """:param least: of what comes next"""
        self.left -= least
        if self.left < 0:
            raise NotJsonError("$ has many times more bytes as JSON than a record has room for")


def _to_json(value: object, room: _Room) -> str:
    _check(value, "$", MAX_DEPTH, room)
    return json.dumps(value, allow_nan=False)


def _check(value: object, path: str, depth: int, room: _Room) -> None:
    room.take(1)
    if depth == 0:
        raise NotJsonError(f"{path[:40]}... is more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, (dict, list, tuple)):
        for where, item in _parts(value, path, room):
            _check(item, where, depth - 1, room)
    else:
        _check_plain(value, path, room)


def _parts(value: dict[Any, Any] | list[Any] | tuple[Any, ...], path: str, room: _Room) -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotJsonError(f"{path} has the key {_shown(key)}; keys must be strings")
        _check_plain(key, f"a key of {path}", room)
        yield f"{path}.{key}", item


def _shown(key: object) -> str:
    try:
        return repr(key)[:_MOST_SHOWN]
    except Exception:  # noqa: BLE001  code of a job, or an integer that Python refuses to write
        return f"of type {type(key).__qualname__}"


def _check_plain(value: object, path: str, room: _Room) -> None:
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise NotJsonError(
            f"{path} is a whole number of {value.bit_length()} bits, more than the {MAX_INTEGER_BITS} that every reader"
            " takes; write it as text"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise NotJsonError(f"{path} is {value}, which JSON does not have")
    if isinstance(value, str):
        room.take(len(value))
        try:
            value.encode()
        except UnicodeEncodeError as wrong:
            raise NotJsonError(
                f"{path} has {value[wrong.start]!r}, half a character, which UTF-8 does not have"
            ) from None
    elif value is not None and not isinstance(value, (bool, int, float)):
        raise NotJsonError(f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which JSON does not have")
