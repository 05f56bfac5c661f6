"""How often in a row tasks have lately met a known fault of Spark (``spark/attempts/blame.py``), which passes or is
none, and how often Spark had no capacity left for them.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.runs.pauses import doubling_ms
from airflow_provider.worker.tasks.runs.runs import TaskRun

IN_A_ROW_MS: Final = 600_000
"""For a stream, which goes well in between."""
_FOR_LONG_MS: Final = 86_400_000
"""For a task that begins anew each time: it may take hours to meet the fault."""
_MOST: Final = 10
_FIRST_PAUSE_MS: Final = 1_000
_LONGEST_PAUSE_MS: Final = 60_000


class InARow:
    """How often in a row the same has happened to a task of this worker. Its next worker begins anew."""

    def __init__(self) -> None:
        self._met: dict[TaskId, tuple[int, int]] = {}
        """How often, and until when this counts."""

    def again(self, task: TaskId, now_ms: int, *, counts_ms: int) -> int:
        """It has happened once more, and counts for this time.

        :returns: how often in a row
        """
        self._met = {each: met for each, met in self._met.items() if now_ms < met[1]}
        times = self._met.get(task, (0, 0))[0] + 1
        self._met[task] = times, now_ms + counts_ms
        return times

    def forget(self, task: TaskId) -> None:
        self._met.pop(task, None)


class KnownFaults:
    """The faults that tasks have met, in a row."""

    def __init__(self) -> None:
        self._met = InARow()

    def pause_ms(self, run: TaskRun, now_ms: int) -> int | None:
        """The pause after one more fault; None: there were so many that the task is to blame after all."""
        counts_ms = IN_A_ROW_MS if run.kind is TaskKind.STREAMING else _FOR_LONG_MS
        times = self._met.again(run.task, now_ms, counts_ms=counts_ms)
        if times > _MOST:
            self._met.forget(run.task)
            return None
        return doubling_ms(_FIRST_PAUSE_MS, times, _LONGEST_PAUSE_MS)

    def finished(self, task: TaskId) -> None:
        """What it has met does not count in its next run."""
        self._met.forget(task)
