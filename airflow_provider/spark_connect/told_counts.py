"""Adds up what a server tells of the work that it does in one session, without being asked."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol

from airflow_provider.driver.job_counts import JobCounts


class ToldStage(Protocol):
    """A stage, as PySpark says it."""

    num_tasks: int
    num_completed_tasks: int
    done: bool


class ToldCounts:
    """What the operations of one session have done. A server tells it every two seconds of one that runs
    (``spark.connect.progress.reportInterval``), so those that are shorter do not count. It tells nothing of rows.

    Given to ``session.registerProgressHandler``, which calls it by the threads that the operations were asked for in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = JobCounts()
        self._going_on: dict[str, JobCounts] = {}

    def __call__(
        self,
        stages: Iterable[ToldStage] | None,
        inflight_tasks: int,  # noqa: ARG002 - as PySpark calls it
        operation_id: str | None,
        done: bool,
    ) -> None:
        told, operation = list(stages or ()), operation_id or ""
        with self._lock:
            if done:
                self._going_on.pop(operation, None)
                self._ended += _all_done(told)
            else:
                self._going_on[operation] = _as_told(told)

    def look(self) -> JobCounts:
        with self._lock:
            return sum(self._going_on.values(), self._ended)


def _as_told(stages: Iterable[ToldStage]) -> JobCounts:
    counts = JobCounts()
    for stage in stages:
        counts += JobCounts(
            stages=1, stages_done=int(stage.done), tasks=stage.num_tasks, tasks_done=stage.num_completed_tasks
        )
    return counts


def _all_done(stages: Iterable[ToldStage]) -> JobCounts:
    """The last news of an operation come before its end. What had not begun by then was skipped, as a rule."""
    begun = [stage for stage in stages if stage.done or stage.num_completed_tasks]
    tasks = sum(stage.num_tasks for stage in begun)
    return JobCounts(stages=len(begun), stages_done=len(begun), tasks=tasks, tasks_done=tasks)
