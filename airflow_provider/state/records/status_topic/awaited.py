"""What Airflow has to start for a worker that has handed its membership over."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Awaited(str, Enum):
    """What Airflow has to start."""

    PROCESS = "process"
    TRIGGERER = "triggerer"

    @property
    def in_words(self) -> str:
        """What the worker's record says to people."""
        return _WORDS[self]


_WORDS: Final = {
    Awaited.PROCESS: "waits for Airflow to start its process",
    Awaited.TRIGGERER: "waits for a triggerer of Airflow",
}


def awaited_in(condition: str) -> Awaited | None:
    """The same from the words alone: older releases write nothing else."""
    return next((awaited for awaited, words in _WORDS.items() if condition.startswith(words)), None)
