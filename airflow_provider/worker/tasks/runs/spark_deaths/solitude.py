"""Room for a task that is tried with nothing beside it (``suspects.py``): it waits until the rest has stopped.

A death while a task is alone on trial does not convict it: what ran well beside it may end Spark late. But one of them
is the reason, or people are. So its next trial comes before anything else, with nothing beside it: what runs in its
process is told to stop, which costs no more than the death that is to be expected, and nothing begins. Only if Spark or
the process ends once more, after nothing else was there from the task's start on, the task fails; if nothing was beside
it at first, one death of its own Spark is enough. So no task fails because of another one, however many there are and
whenever they end Spark, unless by something that they leave behind as they stop.

What does not stop in time stays beside it, and so does a warm-up. Such a trial can acquit, and decides nothing else:
the next one waits for twice as long, up to half an hour. A death leaves nothing beside it, so mostly one such trial is
enough. It starves nobody: nothing stops while there is no slot for it, each wait has an end, after the trial all others
come back, and they stop again only after another death: who fails for other reasons meanwhile, and is retried, is an
ordinary suspect again. What stops for it is acquitted, if it has stood its own trial: two can't stop each other for
ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.trials import TRIAL_MS

_LONGER_WAITS: Final = 5
"""How often the wait for what does not stop doubles at most: up to half an hour."""


class Solitude:
    """What is beside a task that waits for such a trial, or has begun it.

    :param is_over: whether Spark has ended under an attempt, which has not said so yet
    """

    def __init__(self, is_over: Callable[[TaskRun], bool]) -> None:
        self._is_over = is_over
        self._asked_ms: int | None = None
        self._alone_on_spark: tuple[TaskId, int] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether some task waits for it."""
        return self._asked_ms is not None

    def forget(self) -> None:
        """No task waits for it any more."""
        self._asked_ms = None

    def keeps_waiting(self, run: TaskRun, beside: Tasks, *, now_ms: int) -> bool:
        """Whether the task waits until what is beside it has stopped."""
        if self._asked_ms is None:
            self._asked_ms = now_ms
        wait_ms = TRIAL_MS << min(run.died_alone - 1, _LONGER_WAITS)
        return bool(beside) and now_ms < self._asked_ms + wait_ms

    def begins(self, run: TaskRun, beside: Tasks, runs: RunTable) -> None:
        """The task starts now."""
        self._asked_ms = None
        may_end_spark = any(task not in runs or not self._is_over(runs[task]) for task in beside)
        self._alone_on_spark = None if may_end_spark else (run.task, run.attempt)

    def was_alone_on_spark(self, run: TaskRun) -> bool:
        """Whether what was beside it could end the process, but not its Spark, because their own had ended."""
        return self._alone_on_spark == (run.task, run.attempt)


def beside(run: TaskRun, runs: RunTable, warming: Tasks) -> Tasks:
    """What could end this task's Spark, or its process.

    :param warming: the warm-ups in this process
    """
    here = (runs[task] for task in runs.active if task != run.task)
    return frozenset(other.task for other in here if other.state.runs and not other.detached) | (warming - {run.task})
