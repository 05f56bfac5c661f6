"""What a warm-up has in its hands of a rehearsal."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider.spark.job import TaskGuard

log = logging.getLogger(__name__)


class Rehearsal(Iterator[float]):
    """One that goes on as it is iterated over, so that its warm-up can say how far it is. If nobody has when it is let
    go of, it has done nothing: a warning names the line.

    :param steps: each gives how far it is, from 0 to 1
    :param guard: of its warm-up, which may be stopped before it has come to it
    :param line: where it was asked for
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
        """End it, as a generator."""
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
