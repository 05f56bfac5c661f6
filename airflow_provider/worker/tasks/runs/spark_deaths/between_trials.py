"""What needs no trial starts again between the trials of its worker: it would otherwise wait for all of them.

What ran when Spark or its process ended comes back before the next trial (``suspects.py``). What has met something
else, such as an error of its own or a known fault of Spark, has a turn after each end, and between two trials. The turn
lasts for a moment, because those that have met the same fault are ready again one soon after the other. Then the next
trial comes, when all these have run for long enough. So what fails again and again puts off each trial once.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable

TURN_MS: Final = 10_000


class BetweenTrials:
    """Which tasks may start though others wait for their trials.

    :ivar returning: tasks that ran when Spark or its process ended, and come back
    """

    def __init__(self) -> None:
        self.returning: set[TaskId] = set()
        self._again: set[TaskId] = set()
        self._until_ms: int | None = None
        """Until when the turn of what starts again lasts; None: it has not begun."""

    def forget_jobs_but(self, jobs: Container[str]) -> None:
        self.returning = {task for task in self.returning if task.job in jobs}
        self._again = {task for task in self._again if task.job in jobs}

    def waits_again(self, task: TaskId) -> None:
        """A task of this worker has ended, and waits for its next start."""
        self._again.add(task)

    def next_turn(self) -> None:
        """What starts again has a turn before the next trial."""
        self._until_ms = None

    def started(self, task: TaskId, *, now_ms: int) -> None:
        if task in self._again and task not in self.returning and self._until_ms is None:
            self._until_ms = now_ms + TURN_MS
        self.returning.discard(task)
        self._again.discard(task)

    def some_return(self, runs: RunTable, tried: Tasks, others: Tasks, *, slots: int, now_ms: int) -> bool:
        """Whether something can come back now.

        :param tried: those that wait for their trial
        :param others: those that may not start for other reasons
        """
        here = (runs[task] for task in self.returning - tried if task in runs)
        self.returning = {run.task for run in here if run.state is RunState.WAITING}
        return runs.busy < slots and any(runs[task].not_before_ms <= now_ms for task in self.returning - others)

    def start_again(self, runs: RunTable, blocked: Tasks, *, slots: int, now_ms: int) -> Tasks:
        """What can start again now, if it is the turn of these.

        :param blocked: those that wait for their trial, or may not start for other reasons
        """
        if self._until_ms is not None and now_ms >= self._until_ms:
            return NO_TASKS
        here = (runs[task] for task in self._again if task in runs)
        waiting = [run for run in here if run.state is RunState.WAITING]
        self._again = {run.task for run in waiting}
        fit = (run for run in waiting if run.task.is_planner or runs.busy + runs.share_of(run, slots=slots) <= slots)
        return frozenset(run.task for run in fit if run.not_before_ms <= now_ms) - blocked
