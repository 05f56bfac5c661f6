"""All plans of classic and declarative groups, by the names for ``make simulate PLAN=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulation import histories
from simulation.declarative import histories as declarative
from simulation.shrink import shrink

NAMES = (*histories.PLANS, *declarative.PLANS)

Told = histories.Told | declarative.Told


def play(name: str, seed: int, actions: Sequence[Any] | None = None) -> Told:
    """Play one history.

    :param actions: to play; None makes them up from the seed
    """
    if name in declarative.PLANS:
        return declarative.play(seed, declarative.PLANS[name], actions)
    return histories.play(seed, histories.PLANS[name], actions)


def cut_down(name: str, seed: int, told: Told) -> Told:
    """The same failure with as few actions as possible."""
    return shrink(lambda actions: play(name, seed, actions), told)
