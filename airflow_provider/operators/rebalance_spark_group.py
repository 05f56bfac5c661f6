"""The operator that rebalances a group now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.integration.airflow_api.task_instance import who_acts
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.operator_parameters.parameters import group_name, is_template
from airflow_provider.integration.task_failures.patience import waited_out
from airflow_provider.state.operations.operations import OperationError

if TYPE_CHECKING:
    from airflow.sdk import Context


class RebalanceSparkGroupOperator(GroupTask):
    """Rebalances a group in the classic protocol now: lost tasks no longer wait for their worker, and delayed moves
    happen now. The operator does not wait for the round.

    Fails if the group has no workers, or is a declarative group, which has no rounds.

    :param group: the group
    :param kafka_conn_id: a connection of type ``kafka``
    """

    template_fields: Sequence[str] = ("group", "kafka_conn_id")
    ui_color = "#f5d9c2"

    def __init__(self, *, group: str, kafka_conn_id: str = SparkGroupHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.kafka_conn_id = kafka_conn_id
        if not is_template(group):
            group_name(group)

    def execute(self, context: Context) -> None:
        group, by = group_name(self.group), who_acts(context)
        hook = SparkGroupHook(self.kafka_conn_id)
        try:
            waited_out(lambda: hook.rebalance(group, by=by), f"The rebalance of group {group}")
        except OperationError as refused:
            raise AirflowFailException(f"group {group!r}: {refused}") from refused
        self.log.info("Group %s is asked to rebalance", group)
