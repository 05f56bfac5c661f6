"""How long the trial of a suspect takes (``suspects.py``), and how much of it the suspect has stood.

The time of a stream begins when it first moves: its first batch has ended, or there was nothing to read. It begins
again whenever another stream beside it has come so far: a Spark in which many start may take minutes for each step of
one. What they read may never come, and something may start again and again: so this is not waited for without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.state.records import TaskKind, TaskStatus
from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun

TRIAL_MS: Final = 60_000
FIRST_BATCH_MS: Final = 300_000
"""The time of a stream begins at the latest so long after its start."""
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
        self._calm_since_ms = 0

    def look(self, runs: RunTable, now_ms: int) -> None:
        """See since when no stream is on its way to its first batch."""
        streams = [run for task in runs.active if _has_batches(run := runs[task])]
        on_way = any(run.liveness.first_ms is None and run.ran_ms(now_ms) < FIRST_BATCH_MS for run in streams)
        self._calm_since_ms = now_ms if on_way else max((run.liveness.first_ms or 0 for run in streams), default=0)

    def servers_are(self, *, silent: bool, detached: bool, now_ms: int) -> None:
        """Whether tasks may have ended without anybody knowing: the detached ones, or the attached ones."""
        if silent:
            self._silent.add(detached)
        elif detached in self._silent:
            self._silent.remove(detached)
            self._heard_again_ms[detached] = now_ms

    def is_silent(self, *, detached: bool) -> bool:
        return detached in self._silent

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
        if run.began_ms is None or self.is_silent(detached=run.detached):
            return 0
        since_ms = max(run.began_ms, run.adopted_ms or 0, self._heard_again_ms[run.detached])
        return max(0, now_ms - _begins_ms(run, since_ms, self._calm_since_ms))


def is_young(run: TaskRun, now_ms: int) -> bool:
    """Whether it might still end Spark soon after its start."""
    return run.began_ms is None or now_ms - _begins_ms(run, run.began_ms) < TRIAL_MS


def _begins_ms(run: TaskRun, since_ms: int, calm_since_ms: int = 0) -> int:
    """When its time begins, if it runs since ``since_ms``."""
    if not _has_batches(run):
        return since_ms
    latest_ms, first_ms = since_ms + FIRST_BATCH_MS, run.liveness.first_ms
    return latest_ms if first_ms is None else min(max(first_ms, since_ms, calm_since_ms), latest_ms)


def _has_batches(run: TaskRun) -> bool:
    """Whether it is a stream, as its query shows; or is to be one on a server, where it may wait for its start."""
    return run.liveness.seen_ms is not None or (bool(run.runs_on) and run.work.definition.kind is TaskKind.STREAMING)
