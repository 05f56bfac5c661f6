"""The assets that an attempt of a task says it has written. Like a job, this needs only the standard library."""

from __future__ import annotations

import operator
import threading
from typing import Final, NamedTuple, SupportsIndex

MOST_ASSETS: Final = 100
LONGEST_NAME: Final = 1_500
"""The most characters of a name or a URI: Airflow's limit."""
_MOST_ROWS: Final = 2**53 - 1


class AssetWrite(NamedTuple):
    """An asset that was written.

    :param rows: how many rows were written; None: unknown
    """

    name: str
    uri: str
    rows: int | None


def both(some: int | None, more: int | None) -> int | None:
    """The sum; None if one of them is unknown."""
    return None if some is None or more is None else some + more


class AssetWrites:
    """Adds up the writes of an attempt. Any thread may call it: a stream writes in threads of Spark."""

    def __init__(self) -> None:
        self._writes: dict[tuple[str, str], AssetWrite] = {}
        self._lock = threading.Lock()

    def add(self, name: str, uri: str, rows: SupportsIndex | None) -> None:
        """Add one write.

        :raises ValueError: for an invalid name, URI or number of rows, and for more assets than a task's record may
            have
        """
        _check("name", name)
        _check("uri", uri)
        more = AssetWrite(name, uri, None if rows is None else _whole(name, rows))
        with self._lock:
            known = self._writes.get((name, uri))
            if known is None and len(self._writes) == MOST_ASSETS:
                raise ValueError(f"asset {name!r}: the task has named {MOST_ASSETS} others already")
            self._writes[name, uri] = more if known is None else more._replace(rows=both(known.rows, more.rows))

    @property
    def told(self) -> tuple[AssetWrite, ...]:
        """The sum for each asset, in the order in which they were first named."""
        with self._lock:
            return tuple(self._writes.values())


def _check(what: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_NAME:
        raise ValueError(f"{what}: must be a text of 1 to {LONGEST_NAME} characters that are not all blank")
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        raise ValueError(f"{what}: has half a character, which UTF-8 does not have: {text!r}") from wrong


def _whole(name: str, rows: SupportsIndex) -> int:
    try:
        number = operator.index(rows)
    except TypeError:
        number = -1
    if not 0 <= number <= _MOST_ROWS:
        raise ValueError(f"asset {name!r}: rows must be a whole number, 0 or more, and not {rows!r}")
    return number
