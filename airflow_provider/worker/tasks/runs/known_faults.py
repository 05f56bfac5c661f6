"""How often tasks have lately met a known fault of Spark (``spark/attempts/blame.py``): it passes, or is none."""

from __future__ import annotations

from typing import Final

from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.runs.pauses import doubling_ms

_LATELY_MS: Final = 600_000
_MOST: Final = 10
_FIRST_PAUSE_MS: Final = 1_000
_LONGEST_PAUSE_MS: Final = 60_000


class KnownFaults:
    """Of the tasks of one worker. Another worker that gets a task begins anew."""

    def __init__(self) -> None:
        self._met: dict[TaskId, tuple[int, int]] = {}

    def pause_ms(self, task: TaskId, now_ms: int) -> int | None:
        """The pause after one more fault; None: there were so many that the task is to blame after all."""
        self._met = {each: met for each, met in self._met.items() if now_ms - met[1] < _LATELY_MS}
        times = self._met.get(task, (0, 0))[0] + 1
        if times > _MOST:
            self._met.pop(task)
            return None
        self._met[task] = times, now_ms
        return doubling_ms(_FIRST_PAUSE_MS, times, _LONGEST_PAUSE_MS)
