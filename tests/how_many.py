"""How many random examples tests play: as many as each run has time for. ``make thorough`` plays more."""

from __future__ import annotations

import os


def examples(number: int) -> int:
    """So many, times ``COSPARK_EXAMPLES``."""
    return number * int(os.environ.get("COSPARK_EXAMPLES", "1"))
