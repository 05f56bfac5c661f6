"""The state of the Spark that tasks run on, as seen from its worker, and how often the worker looks."""

from __future__ import annotations

from enum import Enum
from typing import Final

LOOK_S: Final = 2.0
"""How often the worker looks, in seconds."""


class Sight(str, Enum):
    """The state of a Spark application, as seen from its worker. The values are shown to people as conditions."""

    FINE = "fine"
    STARTING = "starting Spark"
    """It has not started yet."""
    WAITING = "waiting for executors"
    """Spark jobs wait because there is no executor."""
    MASTERLESS = "waiting for executors, but its master, which provides them, does not answer"
    """The same, on a standalone cluster whose master does not answer."""
    SILENT = "waiting for its server"
    """The Spark Connect server does not answer, but may be back later."""
    ENDED = "ended"
