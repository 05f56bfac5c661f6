"""What a task costs: what its plan says, else what it took in earlier runs of its job, else 1."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

UNKNOWN_COST: Final = 1.0
RUNS_KEPT: Final = 5
"""Of so many runs it is known how long a task took. The median forgives two that were out of the ordinary."""


def cost_of(weight: float | None, times_ms: Sequence[int]) -> float:
    """What a task costs: in seconds where that is known of earlier runs, else in whatever its plan counts.

    :param weight: what its plan says
    :param times_ms: how long it took in earlier runs
    """
    if weight is not None:
        return weight
    return max(1, median(times_ms)) / 1000 if times_ms else UNKNOWN_COST
