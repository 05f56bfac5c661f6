"""The base class of the operators that carry out an operation on a job."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.integration.airflow_api.task_instance import who_acts
from airflow_provider.integration.operator_parameters.parameters import group_name, job_name
from airflow_provider.integration.task_failures.patience import waited_out
from airflow_provider.operators.one_job import OneJobOperator
from airflow_provider.state.operations.operations import JobOperation, OperationError
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import JobError

if TYPE_CHECKING:
    from airflow.sdk import Context


class SteerSparkJob(OneJobOperator):
    """Carries out the operation that a subclass makes."""

    @abstractmethod
    def _operation(self, job: str) -> JobOperation:
        """The operation on the job."""

    def execute(self, context: Context) -> dict[str, object]:
        """Fail without retries if the operation is refused, as it would be again."""
        group, operation = group_name(self.group), self._operation(job_name(self.job))
        hook, by = SparkGroupHook(self.kafka_conn_id), who_acts(context)
        try:
            outcome = waited_out(
                lambda: hook.operate(group, operation, by=by), f"This operation on job {operation.job}"
            )
        except (OperationError, JobError) as refused:
            raise AirflowFailException(f"group {group!r}: {refused}") from refused
        self.log.info("Group %s: %s", group, outcome_in_words(operation, outcome))
        return outcome.to_json()
