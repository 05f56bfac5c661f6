"""What is wrong with a message, and where: ``value.Members[1].MemberId at byte 17: expected 5 bytes, 3 remain``.

A place is put together from the inside to the outside, while an error passes the structs that it lies in: what is in
order pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider.protocol.model import LocalProtocolError, RemoteProtocolError


class MalformedMessageError(RemoteProtocolError):
    """Bytes that are no message of the declarative group's protocol.

    :param at: the byte from which on something else was expected
    :param found: what is there instead, as half a sentence
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
    """A value that its field can't carry: a bug on this side.

    :param found: what it is instead, as half a sentence
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
    """Let an error lie in one part more.

    :param part: the name of a field, or an index in brackets
    """
    wrong.place = f"{part}.{wrong.place}" if wrong.place and wrong.place[0] != "[" else part + wrong.place


@contextmanager
def placed(part: str) -> Iterator[None]:
    """Errors in this context lie in ``part``. Only for outermost parts: for each field it would cost too much."""
    try:
        yield
    except (MalformedMessageError, UnwritableMessageError) as wrong:
        within(part, wrong)
        raise
