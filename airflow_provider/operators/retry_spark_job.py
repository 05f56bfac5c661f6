"""The operator that tries the failed tasks of a job again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.task_instance import who_acts
from airflow_provider.integration.operator_parameters.parameters import group_name, job_name
from airflow_provider.integration.task_failures.patience import waited_out
from airflow_provider.operators.one_job import SomeTasksOperator
from airflow_provider.state.views.task_progress.retrying import retried_in_words

if TYPE_CHECKING:
    from airflow.sdk import Context


class RetrySparkJobOperator(SomeTasksOperator):
    """Tries those tasks of a job's present run again that have failed for good, with all their retries.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, -1 for the planner; by default all
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``job`` and ``retried``: the names of the tasks that are tried again.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        group, job = group_name(self.group), job_name(self.job)
        hook, indexes, by = SparkGroupHook(self.kafka_conn_id), self._indexes(), who_acts(context)
        retried = waited_out(lambda: hook.retry_failed(group, job, indexes, by=by), f"Retrying job {job}")
        self.log.info("Group %s: %s", group, retried_in_words(job, retried))
        return {"job": job, "retried": retried}
