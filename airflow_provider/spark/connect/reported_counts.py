"""Adds up the progress that a server reports, unasked, of the operations in one session."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from airflow_provider.spark.local.job_counts import JobCounts


class ReportedStage(Protocol):
    """A stage, as PySpark reports it."""

    num_tasks: int
    num_completed_tasks: int
    done: bool


class ReportedCounts:
    """What the operations of one session have done. A server reports each running operation every two seconds
    (``spark.connect.progress.reportInterval``), so shorter ones are not counted. It does not report rows.

    Pass it to ``session.registerProgressHandler``, which calls it in the threads that run the operations.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = JobCounts()
        self._running: dict[str, Sequence[ReportedStage]] = {}

    def __call__(
        self,
        stages: Iterable[ReportedStage] | None,
        inflight_tasks: int,  # noqa: ARG002 - as PySpark calls it
        operation_id: str | None,
        done: bool,
    ) -> None:
        told, operation = list(stages or ()), operation_id or ""
        with self._lock:
            if done:
                self._running.pop(operation, None)
                self._ended += _all_done(told)
            else:
                self._running[operation] = told

    def look(self) -> JobCounts:
        """A server does not say which stages it skips. Those of a running operation count as open."""
        with self._lock:
            return sum(map(_as_told, self._running.values()), self._ended)

    def look_at_the_end(self) -> JobCounts:
        """The same, after the code that ran the operations has returned."""
        with self._lock:
            return sum(map(_all_done, self._running.values()), self._ended)


def _as_told(stages: Iterable[ReportedStage]) -> JobCounts:
    counts = JobCounts()
    for stage in stages:
        counts += JobCounts(
            stages=1, stages_done=int(stage.done), tasks=stage.num_tasks, tasks_done=stage.num_completed_tasks
        )
    return counts


def _all_done(stages: Iterable[ReportedStage]) -> JobCounts:
    """The last report of an operation comes before its end. Stages that had not begun by then were usually skipped."""
    begun = [stage for stage in stages if stage.done or stage.num_completed_tasks]
    tasks = sum(stage.num_tasks for stage in begun)
    return JobCounts(stages=len(begun), stages_done=len(begun), tasks=tasks, tasks_done=tasks)
