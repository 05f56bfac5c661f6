"""The cost of a task: what its plan says, else what it took in earlier runs of its job, else 1."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

UNKNOWN_COST: Final = 1.0
RUNS_KEPT: Final = 5
"""How many runs' times of a task are kept. Their median is not affected by up to two unusual ones."""


def cost_of(weight: float | None, times_ms: Sequence[int]) -> float:
    """The cost of a task: in seconds, if earlier runs are known, else in the unit that its plan uses.

    :param weight: what its plan says
    :param times_ms: how long it took in earlier runs
    """
    if weight is not None:
        return weight
    return max(1, median(times_ms)) / 1000 if times_ms else UNKNOWN_COST
