"""Errors that say what is wrong with a message, and where: ``value.Members[1].MemberId at byte 17: expected 5 bytes, 3
remain``.

The place is put together from the inside out, while the error passes through the structs around it. So messages that
are in order cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider.values.model import LocalProtocolError, RemoteProtocolError


class MalformedMessageError(RemoteProtocolError):
    """The bytes are not a message of the declarative group's protocol.

    :param at: the offset of the byte at which something else was expected
    :param expected: what was expected there
    :param found: what is there instead, as a clause
    """

    def __init__(self, at: int, expected: str, found: str) -> None:
        super().__init__(at, expected, found)
        self.at = at
        self.expected = expected
        self.found = found
        self.place = ""

    def __str__(self) -> str:
        where = f"{self.place} at byte {self.at}" if self.place else f"byte {self.at}"
        return f"{where}: expected {self.expected}, {self.found}"


class UnwritableMessageError(LocalProtocolError):
    """A field can't hold its value: a bug of the writer.

    :param expected: what the field can hold
    :param found: what was given instead, as a clause
    """

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found
        self.place = ""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}expected {self.expected}, {self.found}"


def within(part: str, wrong: MalformedMessageError | UnwritableMessageError) -> None:
    """Add the enclosing part to the place of an error.

    :param part: the name of a field, or an index in brackets
    """
    wrong.place = f"{part}.{wrong.place}" if wrong.place and wrong.place[0] != "[" else part + wrong.place


@contextmanager
def placed(part: str) -> Iterator[None]:
    """Add ``part`` to the place of errors in this context. It is too slow to be used for each field."""
    try:
        yield
    except (MalformedMessageError, UnwritableMessageError) as wrong:
        within(part, wrong)
        raise
