"""What the operators have in common that steer a job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.common.airflow_names import AirflowFailException
from airflow_provider.common.parameters import group_name, is_template, job_name
from airflow_provider.common.task_instance import who_acts
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operations.operations import JobOperation, OperationError
from airflow_provider.operations.words import outcome_in_words
from airflow_provider.records import JobError

if TYPE_CHECKING:
    from airflow.sdk import Context


class SteerSparkJob(BaseOperator):
    """Asks something of a job; what, each operator says.

    :param group: the group
    :param job: the job's name
    :param kafka_conn_id: a connection of type ``kafka``
    """

    template_fields: Sequence[str] = ("group", "job", "kafka_conn_id")
    ui_color = "#f7e3b5"

    def __init__(
        self, *, group: str, job: str, kafka_conn_id: str = SparkGroupHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.job = job
        self.kafka_conn_id = kafka_conn_id
        if not is_template(group):
            group_name(group)
        if not is_template(job):
            job_name(job)

    @abstractmethod
    def _operation(self, job: str) -> JobOperation:
        """What is asked of it."""

    def execute(self, context: Context) -> dict[str, object]:
        """What is refused is refused again in a retry; a broker that is away is a case for one."""
        group, operation = group_name(self.group), self._operation(job_name(self.job))
        try:
            outcome = SparkGroupHook(self.kafka_conn_id).operate(group, operation, by=who_acts(context))
        except (OperationError, JobError) as refused:
            raise AirflowFailException(f"group {group!r}: {refused}") from refused
        self.log.info("Group %s: %s", group, outcome_in_words(operation, outcome))
        return outcome.to_json()
