"""The link from a task to its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, TaskInstanceKey


class SparkGroupLink(BaseOperatorLink):
    """To the task instance that leads the group: its log tells of every rebalance and why tasks moved.

    The operator keeps the address in ``group_link``; Airflow stores it by XCom when the task's process ends.
    """

    name: ClassVar[str] = "Spark group"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return str(getattr(operator, "group_link", "") or "")


def group_link(status: Any) -> str:
    """The page of the group's leader, as the status topic has it; empty if there is none."""
    if status.group is None:
        return ""
    leader = status.workers.get(status.group.leader)
    return leader.url if leader is not None and leader.url.startswith(("http://", "https://")) else ""
