"""Counts what the Spark jobs with a tag have done, from what Spark keeps for its UI, even if the UI is off."""
# ruff: noqa: SLF001 - PySpark has no public way to it

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.local.job_counts import JobCounts

if TYPE_CHECKING:
    from pyspark import SparkContext

_SKIPPED: Final = "SKIPPED"
_PENDING: Final = "PENDING"
_FAILED: Final = "FAILED"
_GOES_ON: Final = ("RUNNING", "UNKNOWN")
"""The states of a Spark job that has neither succeeded nor failed."""


class CountedJobs:
    """The Spark jobs with one tag. Those that have ended are counted once, so that Spark may forget them. Any thread
    may look: at the end of a task, one that polls may still be at it.

    Spark keeps the last ``spark.ui.retainedJobs`` jobs of an application (100 here by default). If more of them end
    between two looks, some are not counted.
    """

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._spark = context._jsc.sc()
        self._tag = tag
        self._looking = threading.Lock()
        self._counted: set[int] = set()
        self._ended = JobCounts()

    def look(self) -> JobCounts:
        """Ask the JVM. That takes milliseconds for each job that is new, or has not ended.

        :raises Py4JError: if the JVM does not answer
        """
        with self._looking:
            return self._add_up(self._so_far)

    def look_at_the_end(self) -> JobCounts:
        """The same, after the code that ran the jobs has returned: Spark has done all their work, even if its counts
        are a moment late. Stages that have not begun were skipped.

        :raises Py4JError: if the JVM does not answer
        """
        with self._looking:
            return self._add_up(self._in_the_end)

    def _add_up(self, count: Callable[[Any], JobCounts]) -> JobCounts:
        known = set(self._spark.statusTracker().getJobIdsForTag(self._tag))
        going_on = JobCounts()
        self._counted &= known
        for number in known - self._counted:
            job = self._spark.statusStore().job(number)
            if job.status().toString() in _GOES_ON:
                going_on += count(job)
            else:
                self._counted.add(number)
                self._ended += self._in_the_end(job)
        return self._ended + going_on

    def _so_far(self, job: Any) -> JobCounts:
        """Spark tells only at the end of a job which stages were skipped. But the last stage, which has the highest
        number, begins when everything that it needs is there. Stages that have not begun by then never will.
        """
        stages = self._stages(job)
        last = max(stages, key=lambda stage: int(stage.stageId()), default=None)
        return _counted(job, stages, skipped=[] if _status(last) == _PENDING else _not_needed(stages))

    def _in_the_end(self, job: Any) -> JobCounts:
        stages = self._stages(job)
        counts = _counted(job, stages, skipped=_not_needed(stages))
        if job.status().toString() == _FAILED:
            return counts
        return replace(counts, stages_done=counts.stages, tasks_done=counts.tasks)

    def _stages(self, job: Any) -> list[Any]:
        """Those that Spark has not forgotten."""
        return [stage for stage in map(self._stage, _numbers(job.stageIds())) if stage is not None]

    def _stage(self, number: int) -> Any | None:
        """None: Spark has forgotten it."""
        from py4j.protocol import Py4JJavaError

        try:
            return self._spark.statusStore().lastStageAttempt(number)
        except Py4JJavaError:
            return None


def _counted(job: Any, stages: Sequence[Any], skipped: Sequence[Any]) -> JobCounts:
    """:param skipped: the skipped stages that Spark still knows, including those that it does not yet call skipped"""
    return JobCounts(
        stages=job.stageIds().size() - max(job.numSkippedStages(), len(skipped)),
        stages_done=job.numCompletedStages(),
        tasks=job.numTasks() - max(job.numSkippedTasks(), sum(stage.numTasks() for stage in skipped)),
        tasks_done=job.numCompletedTasks(),
        rows_read=sum(stage.inputRecords() for stage in stages),
        rows_written=sum(stage.outputRecords() for stage in stages),
    )


def _not_needed(stages: Sequence[Any]) -> list[Any]:
    return [stage for stage in stages if _status(stage) in (_SKIPPED, _PENDING)]


def _status(stage: Any | None) -> str:
    return "" if stage is None else str(stage.status().toString())


def _numbers(in_scala: Any) -> list[int]:
    return [int(in_scala.apply(place)) for place in range(in_scala.size())]
