"""The link from a task to its group."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink

from airflow_provider.integration.airflow_api.airflow_names import conf
from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.state.records.addresses import address_within
from airflow_provider.worker.process_identity import is_gone

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

    from airflow_provider.state.views.status_view import StatusSnapshot


class SparkGroupLink(BaseOperatorLink):
    """The link to the task instance of the group's leader, whose log explains each rebalance and each move.

    The operator keeps the address in ``group_link``; Airflow stores it by XCom when the task's process ends. While the
    task runs or is deferred, it is also stored whenever the leader changes.
    """

    name: ClassVar[str] = "Spark group"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return str(getattr(operator, "group_link", "") or "")


def airflow_base_url() -> str:
    """With what the addresses of this Airflow's pages begin."""
    return str(conf.get("api", "base_url", fallback="") or "http://localhost:8080/")


_known_base_url = functools.cache(airflow_base_url)
"""A triggerer asks for the links of a thousand tasks every few seconds."""


def group_link(status: StatusSnapshot) -> str:
    """The page of the group's leader, by its record in the status topic; empty if it is missing, known to be gone, or
    no task of this Airflow.
    """
    leader = None if status.group is None else status.workers.get(status.group.leader)
    if leader is None or is_gone(leader):
        return ""
    return str(storable(address_within(_known_base_url(), leader.url)))


def show_link(operator: Any, context: Context, link: str) -> None:
    """Set the running task's link; an empty one leads nowhere."""
    if link != operator.group_link:
        operator.group_link = link
        context["ti"].xcom_push(key=SparkGroupLink().xcom_key, value=link)
