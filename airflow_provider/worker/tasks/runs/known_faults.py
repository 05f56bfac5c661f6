"""How often in a row tasks have lately met a known fault of Spark (``spark/attempts/blame.py``), which passes or is
none, and how often Spark had no capacity left for them.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.runs.retry_pauses import doubling_ms
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
        self._met: dict[TaskId, tuple[int, int, int]] = {}
        """How often, until when this counts, and after which batch."""

    def again(self, task: TaskId, now_ms: int, *, counts_ms: int, after_batch: int = -1) -> int:
        """It has happened once more, and counts for this time, or until the task's stream has moved on.

        :returns: how often in a row
        """
        self._met = {each: met for each, met in self._met.items() if now_ms < met[1]}
        times, _, batch = self._met.get(task, (0, 0, after_batch))
        times = 1 if after_batch > batch else times + 1
        self._met[task] = times, now_ms + counts_ms, after_batch
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
        batch = -1 if run.last_batch is None else run.last_batch
        times = self._met.again(run.task, now_ms, counts_ms=counts_ms, after_batch=batch)
        if times > _MOST:
            self._met.forget(run.task)
            return None
        return doubling_ms(_FIRST_PAUSE_MS, times, _LONGEST_PAUSE_MS)

    def finished(self, task: TaskId) -> None:
        """What it has met does not count in its next run."""
        self._met.forget(task)
