"""Cutting a failing history down to what makes it fail (Zeller's delta debugging, ``ddmin``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from simulation.actions import Action
from simulation.histories import Plan, Told, play

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of the items that fails, of which no single one can be left out."""
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


def shrink(seed: int, plan: Plan, told: Told, *, within_s: float = 60.0) -> Told:
    """The same failure of the same seed with as few actions as can be found in that time."""
    best = told
    until = time.monotonic() + within_s

    def fails(actions: Sequence[Action]) -> bool:
        nonlocal best
        if time.monotonic() > until:
            return False
        again = play(seed, plan, actions)
        same = again.kind == told.kind
        if same and len(again.actions) <= len(best.actions):
            best = again
        return same

    ddmin(told.actions, fails)
    return best
