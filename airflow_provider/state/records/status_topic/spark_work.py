"""The progress of a bounded task, in its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow_provider.state.records.envelope import COUNT
from airflow_provider.state.records.plain import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWork(Plain):
    """What the attempt's Spark jobs have done. Spark plans while it runs, so the totals may grow.

    :param stages: the stages of the jobs that have begun, without those that are known to be skipped
    :param tasks: Spark's own tasks of these stages
    :param rows_read: rows read from sources, not from shuffles
    :param at_ms: when this was reported (wall clock, milliseconds since 1970)
    """

    stages: Annotated[int, COUNT]
    stages_done: Annotated[int, COUNT]
    tasks: Annotated[int, COUNT]
    tasks_done: Annotated[int, COUNT]
    rows_read: Annotated[int, COUNT]
    rows_written: Annotated[int, COUNT]
    at_ms: Annotated[int, COUNT]

    def in_words(self) -> str:
        words = [f"{self.stages_done} of {self.stages} stages", f"{self.tasks_done:,} of {self.tasks:,} Spark tasks"]
        if self.rows_read:
            words.append(f"{self.rows_read:,} rows read")
        if self.rows_written:
            words.append(f"{self.rows_written:,} rows written")
        return ", ".join(words)
