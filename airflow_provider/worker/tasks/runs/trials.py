"""How long the trial of a suspect takes (``suspects.py``)."""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskKind, TaskStatus
from airflow_provider.worker.tasks.runs.runs import TaskRun

TRIAL_MS: Final = 60_000
_LONGER_TRIALS: Final = 5
"""How often the trial of a batch task doubles at most."""


def would_never_end(task: TaskRun | TaskStatus) -> bool:
    """Whether it never comes further if it ends Spark late."""
    return task.kind is TaskKind.BATCH and task.spark_deaths > 0


def trial_length_ms(task: TaskRun | TaskStatus) -> int:
    if not would_never_end(task):
        return TRIAL_MS
    return TRIAL_MS << min(task.acquitted, _LONGER_TRIALS)
