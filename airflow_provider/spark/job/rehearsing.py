"""The object that a warm-up gets from ``task.rehearse``."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider.spark.job import TaskGuard

log = logging.getLogger(__name__)


class Rehearsal(Iterator[float]):
    """A rehearsal that runs while it is iterated over, so that its warm-up can report the progress. If nobody iterates
    over it, it does nothing, and a warning names the line.

    :param steps: yields the progress, from 0 to 1
    :param guard: the guard of its warm-up: there is no warning if this was stopped
    :param line: the line that has called ``task.rehearse``
    """

    def __init__(self, steps: Iterator[float], guard: TaskGuard, line: traceback.FrameSummary) -> None:
        self._steps = steps
        self._guard = guard
        self._line = line
        self._begun = False

    def __next__(self) -> float:
        self._begun = True
        return next(self._steps)

    def close(self) -> None:
        """End it, like a generator."""
        self._begun = True
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()

    def __del__(self) -> None:
        if not self._begun and not self._guard.stopping:
            log.warning(
                "%s:%s: task.rehearse(...) did nothing, because nothing iterates over it: write `yield from"
                " task.rehearse(...)`, or loop over it",
                self._line.filename,
                self._line.lineno,
            )
