"""How long the trial of a suspect takes (``suspects.py``), and how much of it the suspect has stood.

The time of a stream begins when it first moves: its first batch has ended, or there was nothing to read. A busy server
may take minutes until then, and what it reads may never come: so it is not waited for without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.state.records import TaskKind, TaskStatus
from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.tasks.runs.runs import TaskRun

TRIAL_MS: Final = 60_000
FIRST_BATCH_MS: Final = 300_000
"""The time of a stream that does not move begins after this."""
_LONGER_TRIALS: Final = 5
"""How often the trial of a batch task doubles at most."""


def would_never_end(task: TaskRun | TaskStatus) -> bool:
    """Whether it never comes further if it ends Spark late."""
    return task.kind is TaskKind.BATCH and task.spark_deaths > 0


def trial_length_ms(task: TaskRun | TaskStatus) -> int:
    if not would_never_end(task):
        return TRIAL_MS
    return TRIAL_MS << min(task.acquitted, _LONGER_TRIALS)


class TrialTime:
    """For how long the tasks of one worker have stood their trials."""

    def __init__(self) -> None:
        self._silent: set[bool] = set()
        self._heard_again_ms = {False: 0, True: 0}
        self._over: dict[TaskId, int] = {}

    def servers_are(self, *, silent: bool, detached: bool, now_ms: int) -> None:
        """Whether tasks may have ended without anybody knowing: the detached ones, or the attached ones."""
        if silent:
            self._silent.add(detached)
        elif detached in self._silent:
            self._silent.remove(detached)
            self._heard_again_ms[detached] = now_ms

    def spark_ended(self, runs: Mapping[TaskId, TaskRun], tasks: Tasks) -> None:
        """Spark has ended under these attempts."""
        lost = {task: began_ms for task in tasks & runs.keys() if (began_ms := runs[task].began_ms) is not None}
        known = {task: began_ms for task, began_ms in self._over.items() if task in runs}
        self._over = {**known, **lost}

    def is_over(self, run: TaskRun) -> bool:
        """Whether Spark has ended under this attempt, which has not said so yet: it can't end another, however long its
        code hangs.
        """
        return run.began_ms is not None and self._over.get(run.task) == run.began_ms

    def stood_ms(self, run: TaskRun, now_ms: int) -> int:
        """While its server is silent, or no process watches it, it may have ended. This is not known at once when the
        server answers again, or when a process adopts it: the time begins anew.

        :param now_ms: the monotonic clock
        """
        if run.began_ms is None or run.detached in self._silent:
            return 0
        since_ms = max(run.began_ms, run.adopted_ms or 0, self._heard_again_ms[run.detached])
        return max(0, now_ms - _begins_ms(run, since_ms))


def is_young(run: TaskRun, now_ms: int) -> bool:
    """Whether it might still end Spark soon after its start."""
    return run.began_ms is None or now_ms - _begins_ms(run, run.began_ms) < TRIAL_MS


def _begins_ms(run: TaskRun, since_ms: int) -> int:
    """When its time begins, if it runs since ``since_ms``. Of a task without a query nobody sees whether it moves."""
    if run.liveness.seen_ms is None:
        return since_ms
    latest_ms, first_ms = since_ms + FIRST_BATCH_MS, run.liveness.first_ms
    return latest_ms if first_ms is None else min(max(first_ms, since_ms), latest_ms)
