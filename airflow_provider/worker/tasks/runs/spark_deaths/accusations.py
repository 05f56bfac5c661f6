"""Who is accused of each end of Spark, for as long as a task that ran there may still tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks
from airflow_provider.worker.tasks.runs.run_table import RunTable


@dataclass(frozen=True, slots=True)
class _Accusation:
    """:param ran: the tasks that may have run there, with the numbers of their attempts"""

    accused: Tasks
    ran: Mapping[TaskId, int]

    def may_be_told_of(self, active: Mapping[TaskId, int]) -> bool:
        return not active.items().isdisjoint(self.ran.items())


class Accusations:
    """The accusations of one worker, by the number of the Spark that has ended.

    :ivar last: who was accused last
    """

    def __init__(self) -> None:
        self._by_spark: dict[int, _Accusation] = {}
        self.last = NO_TASKS

    def __contains__(self, spark: int) -> bool:
        return spark in self._by_spark

    def __len__(self) -> int:
        return len(self._by_spark)

    def of(self, spark: int) -> Tasks:
        return self._by_spark[spark].accused

    def add(self, spark: int, accused: Tasks, runs: RunTable) -> None:
        """Spark has ended. Forget earlier ends of which nobody is left to tell."""
        active = {task: runs[task].attempt for task in runs.active}
        self._by_spark = {each: made for each, made in self._by_spark.items() if made.may_be_told_of(active)}
        self._by_spark[spark] = _Accusation(accused, active)
        self.last = accused
