"""Options that take a number of seconds."""

from __future__ import annotations

import argparse
import math
from typing import Final

_MOST_S: Final = 10**9


def seconds(text: str) -> float:
    """:raises ArgumentTypeError: saying what is wrong; argparse names the argument"""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < _MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, at least 0")
    return number
