"""How many random examples tests play. The defaults suit every run; ``make thorough`` plays more."""

from __future__ import annotations

import os


def examples(number: int) -> int:
    """This number times ``COSPARK_EXAMPLES``."""
    return number * int(os.environ.get("COSPARK_EXAMPLES", "1"))
