"""Cuts a failing history down to what makes it fail (Zeller's delta debugging, ``ddmin``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar


class Failed(Protocol):
    """The outcome of a failed history (``Told`` of either module ``histories``)."""

    @property
    def actions(self) -> Sequence[Any]: ...

    @property
    def kind(self) -> str: ...


Item = TypeVar("Item")
T = TypeVar("T", bound=Failed)


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A subset of the items that fails, and from which no single one can be left out."""
    items = list(items)
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        for begin in range(0, len(items), size):
            rest = items[:begin] + items[begin + size :]
            if rest and fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(parts * 2, len(items))
    return items


def shrink(play: Callable[[Sequence[Any]], T], told: T, *, within_s: float = 60.0) -> T:
    """The same failure with as few actions as can be found in this time.

    :param play: plays the history with these actions
    """
    best = told
    until = time.monotonic() + within_s

    def fails(actions: Sequence[Any]) -> bool:
        nonlocal best
        if time.monotonic() > until:
            return False
        again = play(actions)
        same = again.kind == told.kind
        if same and len(again.actions) <= len(best.actions):
            best = again
        return same

    ddmin(told.actions, fails)
    return best
