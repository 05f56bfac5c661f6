"""What a job's task group hands to other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.xcom_arg import PlainXComArg

if TYPE_CHECKING:
    from airflow.sdk import TaskGroup


class JobOutput(PlainXComArg):
    """The XCom of ``result``. Set before or after other tasks, it stands for the whole task group: otherwise the job
    would be submitted before what comes before its result.
    """

    @property
    def _tasks(self) -> TaskGroup:
        tasks = self.operator.task_group
        assert tasks is not None
        return tasks

    @property
    def roots(self) -> list[Any]:
        return list(self._tasks.roots)

    @property
    def leaves(self) -> list[Any]:
        return list(self._tasks.leaves)

    def set_upstream(self, task_or_task_list: Any, edge_modifier: Any = None) -> None:
        self._tasks.set_upstream(task_or_task_list, edge_modifier)

    def set_downstream(self, task_or_task_list: Any, edge_modifier: Any = None) -> None:
        self._tasks.set_downstream(task_or_task_list, edge_modifier)
