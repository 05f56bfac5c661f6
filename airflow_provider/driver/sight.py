"""What there is to be seen of the Spark that tasks run on, and how often somebody looks."""

from __future__ import annotations

from enum import Enum
from typing import Final

LOOK_S: Final = 2.0
"""How long from one look to the next."""


class Sight(str, Enum):
    """What there is to be seen of a Spark application."""

    FINE = "fine"
    WAITING = "waiting for executors"
    """Spark jobs wait, and there is not one executor."""
    SILENT = "waiting for its server"
    """It does not answer, and may again."""
    ENDED = "ended"
