"""The one door through which texts of job code enter Airflow's database: in XComs, events of triggers, links, assets.

PostgreSQL takes no NUL and no half of a surrogate pair, JSON has no NaN, and Airflow's processes pass on no integer of
more than 64 bits. One such value in the event of a trigger ends the triggerer, and each one that follows it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import AsyncGenerator, Callable, Container, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

LONGEST_TEXT: Final = 64 * 1024
"""Characters of one text."""

DEEPEST: Final = 80
"""Levels of lists and maps: more than a task's result may have, and fewer than Airflow reads."""

LARGEST: Final = 1024 * 1024
"""Characters and items of one value: 0.1 s of a triggerer's event loop at most, and 80 ms of Airflow's own work."""

_CUT: Final = LARGEST * 3 // 4
"""What stays of a larger one. A report passes the door twice, and PostgreSQL sorts its keys in between: were it still
about as large as it may be, the second time would cut something else.
"""

_AN_ITEM: Final = 16
"""As much room as so many characters."""

_ROOM_TO_SAY_SO: Final = 96
"""Characters, so that a text that was cut is not too long."""

_THE_WHOLE: Final = "the group's topics or the log have the whole"
_FEW: Final = 64
"""So many keys of the outermost map stay, whatever is cut: who reads a report finds each of its parts."""
_SHORT: Final = 256
"""A text up to this length stays whole in a value that is too large."""

_REFUSED: Final = re.compile("[\x00\ud800-\udfff]")
_LARGEST_NUMBER: Final = 2**63
"""In size, of fractions, too: PostgreSQL gives a large one back as an integer. NaN is below no number."""
_INTEGERS: Final = range(-_LARGEST_NUMBER, _LARGEST_NUMBER)

P = ParamSpec("P")
E = TypeVar("E")


def storable(value: object) -> Any:
    """``value`` as any database of Airflow's takes it. Never raises.

    What they refuse is escaped, as JSON does it. Numbers that are too large or not finite become text. What is too
    long, too deep or too much is cut, and says so.
    """
    for most in (LARGEST, _CUT):
        entry = _Entry(left=most, longest=LONGEST_TEXT, deepest=DEEPEST)
        entered = entry.let_in(value, 0)
        if not entry.is_full:
            break
    return entered


def storable_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """As :func:`storable`, for our own state, which comes back to us: nothing is cut."""
    return dict(_Entry(left=None, longest=None, deepest=DEEPEST).let_in(dict(state), 0))


def storing_failures(run: Callable[P, AsyncGenerator[E, None]]) -> Callable[P, AsyncGenerator[E, None]]:
    """For what makes a trigger's events: Airflow stores the traceback of its failure, so that goes this way, too."""

    @wraps(run)
    async def running(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[E, None]:
        try:
            async with aclosing(run(*args, **kwargs)) as events:
                async for event in events:
                    yield event
        except Exception as fault:
            told = "".join(traceback.format_exception(fault))
            if storable(told) == told:
                raise
            raise UnstorableFailureError(storable(told)) from None

    return running


class UnstorableFailureError(Exception):
    """A trigger has failed with a text that no database takes. This is that text, escaped."""


@dataclass(slots=True)
class _Entry:
    """One value on its way in.

    :ivar left: how many characters and items may still follow; None: any number
    """

    left: int | None
    longest: int | None
    deepest: int

    def let_in(self, value: object, depth: int) -> Any:
        self._count(_AN_ITEM)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, int):
            number = int.__int__(value)
            return number if number in _INTEGERS else self._text(_digits(number))
        if isinstance(value, float):
            fraction = float.__float__(value)
            return fraction if abs(fraction) < _LARGEST_NUMBER else self._text(repr(fraction))
        if not isinstance(value, (dict, list, tuple, set, frozenset)):
            return self._text(f"({type(value).__qualname__})")
        if depth >= self.deepest:
            return f"(more than {self.deepest} levels deep)"
        return self._map(value, depth) if isinstance(value, dict) else self._list(list(value), depth)

    def _map(self, items: dict[Any, Any], depth: int) -> dict[str, Any]:
        entered, same = dict[str, Any](), dict[str, int]()
        keeps_keys = depth == 0 and len(items) <= _FEW
        for key, item in items.items():
            if self.is_full and not keeps_keys:
                entered["..."] = f"({len(items) - len(entered)} more; {_THE_WHOLE})"
                break
            name = self.let_in(key, self.deepest)
            entered[self._not_in(entered, str(name), same)] = self.let_in(item, depth + 1)
        return entered

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        entered = list[Any]()
        for item in items:
            if self.is_full:
                entered.append(f"({len(items) - len(entered)} more; {_THE_WHOLE})")
                break
            entered.append(self.let_in(item, depth + 1))
        return entered

    def _text(self, text: str) -> str:
        longest = _SHORT if self.is_full else self.longest
        entered = _REFUSED.sub(_escaped, text if longest is None else text[: longest + 1])
        if longest is not None and len(entered) > longest:
            entered = f"{entered[: longest - _ROOM_TO_SAY_SO]}... (cut: it has {len(text)} characters; {_THE_WHOLE})"
        self._count(len(entered))
        return entered

    def _not_in(self, entered: Container[str], name: str, same: dict[str, int]) -> str:
        """Several keys may become one text: all but the first are numbered.

        :param same: the last number of each text
        """
        free = name
        while free in entered:
            same[name] = same.get(name, 1) + 1
            free = f"{name} ({same[name]})"
        self._count(len(free) - len(name))
        return free

    def _count(self, number: int) -> None:
        if self.left is not None:
            self.left -= number

    @property
    def is_full(self) -> bool:
        """Whether anything was cut, or would be from now on."""
        return self.left is not None and self.left <= 0


def _escaped(refused: re.Match[str]) -> str:
    return f"\\u{ord(refused[0]):04x}"


def _digits(number: int) -> str:
    """Python refuses to write very large numbers as decimals."""
    return str(number) if number.bit_length() <= 2_048 else hex(number)
