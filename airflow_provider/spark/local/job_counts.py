"""What Spark jobs have done."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """What Spark jobs have done. Spark plans while it runs, so the totals may grow.

    :param stages: the stages of the jobs that have begun, without those that are known to be skipped
    :param tasks: Spark's tasks of these stages
    :param rows_read: rows read from sources, not from shuffles
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
