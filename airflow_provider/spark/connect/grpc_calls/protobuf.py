"""The part of Protocol Buffers' wire format that is needed for calls about queries.

PySpark has classes for these messages, but importing them loads pandas. That takes seconds and 100 MB, and creates so
many objects that each full garbage collection blocks the event loop.

Classes compiled from a schema of our own are only promised to work with a runtime of their major version or the next
one, and Airflow's constraints decide which one is installed. The few fields that are needed take a hundred lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_provider.values.varints import read_varint, varint

_VARINT: Final = 0
_EIGHT_BYTES: Final = 1
_SIZED: Final = 2
_FOUR_BYTES: Final = 5
_FIXED: Final = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_LONGEST_VARINT: Final = 10


class NotAMessageError(ValueError):
    """Bytes that are not a valid Protocol Buffers message."""


def number(field: int, value: int) -> bytes:
    """A field with an integer, a boolean or a member of an enum."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, *fields: bytes) -> bytes:
    """A field with a message."""
    body = b"".join(fields)
    return varint(field << 3 | _SIZED) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())


class Message:
    """The fields of a decoded message."""

    def __init__(self, data: bytes) -> None:
        """:raises NotAMessageError: if the bytes are not a valid message"""
        self._numbers: dict[int, int] = {}
        self._bodies: dict[int, list[bytes]] = {}
        for field, value in _fields(data):
            if isinstance(value, int):
                self._numbers[field] = value
            else:
                self._bodies.setdefault(field, []).append(value)

    def number(self, field: int) -> int:
        return self._numbers.get(field, 0)

    def message(self, field: int) -> Message | None:
        """None if the field is absent."""
        bodies = self._bodies.get(field)
        return Message(bodies[-1]) if bodies else None

    def messages(self, field: int) -> list[Message]:
        return [Message(body) for body in self._bodies.get(field, ())]

    def text(self, field: int) -> str:
        texts = self.texts(field)
        return texts[-1] if texts else ""

    def texts(self, field: int) -> list[str]:
        return [body.decode(errors="replace") for body in self._bodies.get(field, ())]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield field, value
            continue
        if kind == _SIZED:
            size, at = _read_varint(data, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise NotAMessageError(f"field {field} has the unknown wire type {kind}")
        if at + size > len(data):
            raise NotAMessageError(f"field {field} ends after {len(data) - at} of {size} bytes")
        yield field, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    if (number := read_varint(data, at, _LONGEST_VARINT)) is None:
        raise NotAMessageError("a number does not end")
    return number
