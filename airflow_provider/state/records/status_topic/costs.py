"""The cost of a task: its weight in the plan, otherwise its time in earlier runs of its job, otherwise 1."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

UNKNOWN_COST: Final = 1.0
RUNS_KEPT: Final = 5
"""How many times of a task are kept. The median of five ignores two unusual ones."""


def cost_of(weight: float | None, times_ms: Sequence[int]) -> float:
    """The cost of a task, in seconds; if it has a weight, in the unit of its plan.

    :param weight: its weight in the plan; None: it has none
    :param times_ms: how long it took in earlier runs, in milliseconds
    """
    if weight is not None:
        return weight
    return max(1, median(times_ms)) / 1000 if times_ms else UNKNOWN_COST
