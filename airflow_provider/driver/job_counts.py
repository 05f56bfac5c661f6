"""Counts what the Spark jobs with a tag have done, from what Spark keeps for its UI, even if the UI is off."""
# ruff: noqa: SLF001 - PySpark has no public way to it

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

_SKIPPED: Final = "SKIPPED"
_GOES_ON: Final = ("RUNNING", "UNKNOWN")
"""The status of a Spark job that has neither succeeded nor failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """What Spark jobs have done. Spark plans as it goes, so the totals may grow.

    :param stages: of the jobs that have begun, without those that are known to be skipped
    :param tasks: Spark's tasks of these stages
    :param rows_read: from sources, not from shuffles
    """

    stages: int = 0
    stages_done: int = 0
    tasks: int = 0
    tasks_done: int = 0
    rows_read: int = 0
    rows_written: int = 0

    def __add__(self, other: JobCounts) -> JobCounts:
        names = self.__dataclass_fields__
        return JobCounts(**dict(zip(names, map(sum, zip(astuple(self), astuple(other), strict=True)), strict=True)))


class CountedJobs:
    """The Spark jobs with one tag. Those that have ended are counted once, so that Spark may forget them.

    Spark keeps the last ``spark.ui.retainedJobs`` jobs of an application (100 here by default). If more of them end
    between two looks, some are not counted.
    """

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._spark = context._jsc.sc()
        self._tag = tag
        self._counted: set[int] = set()
        self._ended = JobCounts()

    def look(self) -> JobCounts:
        """Ask the JVM. That takes milliseconds for each job that is new, or has not ended.

        :raises Py4JError: if the JVM does not answer
        """
        known = set(self._spark.statusTracker().getJobIdsForTag(self._tag))
        going_on = JobCounts()
        self._counted &= known
        for number in known - self._counted:
            job = self._spark.statusStore().job(number)
            if job.status().toString() in _GOES_ON:
                going_on += self._count(job)
            else:
                self._counted.add(number)
                self._ended += self._count(job)
        return self._ended + going_on

    def _count(self, job: Any) -> JobCounts:
        stages = [stage for stage in map(self._stage, _numbers(job.stageIds())) if stage is not None]
        needed = [stage for stage in stages if stage.status().toString() != _SKIPPED]
        return JobCounts(
            stages=len(needed),
            stages_done=job.numCompletedStages(),
            tasks=job.numTasks() - job.numSkippedTasks(),
            tasks_done=job.numCompletedTasks(),
            rows_read=sum(stage.inputRecords() for stage in needed),
            rows_written=sum(stage.outputRecords() for stage in needed),
        )

    def _stage(self, number: int) -> Any | None:
        """None: Spark has forgotten it."""
        from py4j.protocol import Py4JJavaError

        try:
            return self._spark.statusStore().lastStageAttempt(number)
        except Py4JJavaError:
            return None


def _numbers(in_scala: Any) -> list[int]:
    return [int(in_scala.apply(place)) for place in range(in_scala.size())]
