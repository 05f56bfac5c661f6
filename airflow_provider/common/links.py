"""The link from a task to its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink

from airflow_provider.worker.process_identity import is_gone

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

    from airflow_provider.ledger.status_view import StatusSnapshot


class SparkGroupLink(BaseOperatorLink):
    """To the task instance that leads the group: its log tells of every rebalance and why tasks moved.

    The operator keeps the address in ``group_link``; Airflow stores it by XCom when the task's process ends. While the
    task runs or is deferred, it is stored there whenever another one leads.
    """

    name: ClassVar[str] = "Spark group"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return str(getattr(operator, "group_link", "") or "")


def group_link(status: StatusSnapshot) -> str:
    """The page of the group's leader, as the status topic has it; empty if there is none, or it is known to be gone."""
    leader = None if status.group is None else status.workers.get(status.group.leader)
    if leader is None or is_gone(leader):
        return ""
    return leader.url if leader.url.startswith(("http://", "https://")) else ""


def show_link(operator: Any, context: Context, link: str) -> None:
    """Have the running task's link lead there; nowhere if it is empty."""
    if link != operator.group_link:
        operator.group_link = link
        context["ti"].xcom_push(key=SparkGroupLink().xcom_key, value=link)
