"""What there is to be seen of the Spark that tasks run on, and how often somebody looks."""

from __future__ import annotations

from enum import Enum
from typing import Final

LOOK_S: Final = 2.0
"""How long from one look to the next."""


class Sight(str, Enum):
    """What there is to be seen of a Spark application."""

    FINE = "fine"
    STARTING = "starting Spark"
    """It is not there yet."""
    WAITING = "waiting for executors"
    """Spark jobs wait, and there is not one executor."""
    MASTERLESS = "waiting for executors, which only its master can give, and that does not answer"
    """The same, on a standalone cluster whose master is away."""
    SILENT = "waiting for its server"
    """It does not answer, and may again."""
    ENDED = "ended"
