"""How often tasks have lately met a known fault of Spark (``spark/attempts/blame.py``): it passes, or is none."""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.runs.pauses import doubling_ms
from airflow_provider.worker.tasks.runs.runs import TaskRun

_LATELY_MS: Final = 600_000
"""For a stream, which goes well in between."""
_FOR_LONG_MS: Final = 86_400_000
"""For a task that begins anew each time: it may take hours to meet the fault."""
_MOST: Final = 10
_FIRST_PAUSE_MS: Final = 1_000
_LONGEST_PAUSE_MS: Final = 60_000


class KnownFaults:
    """Of the tasks of one worker. Another worker that gets a task begins anew."""

    def __init__(self) -> None:
        self._met: dict[TaskId, tuple[int, int]] = {}
        """How often each task has met one, and until when this counts."""

    def pause_ms(self, run: TaskRun, now_ms: int) -> int | None:
        """The pause after one more fault; None: there were so many that the task is to blame after all."""
        self._met = {each: met for each, met in self._met.items() if now_ms < met[1]}
        times = self._met.get(run.task, (0, 0))[0] + 1
        if times > _MOST:
            self._met.pop(run.task)
            return None
        counts_ms = _LATELY_MS if run.kind is TaskKind.STREAMING else _FOR_LONG_MS
        self._met[run.task] = times, now_ms + counts_ms
        return doubling_ms(_FIRST_PAUSE_MS, times, _LONGEST_PAUSE_MS)

    def finished(self, task: TaskId) -> None:
        """What it has met does not count in its next run."""
        self._met.pop(task, None)
