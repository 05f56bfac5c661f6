"""Has failed tasks of a job tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider.common.parameters import group_name, is_template, job_name, task_indexes
from airflow_provider.common.task_instance import who_acts
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.ledger.retrying import retried_in_words
from airflow_provider.operators.one_job import OneJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class RetrySparkJobOperator(OneJobOperator):
    """Has those tasks of a job's present run tried again that failed for good, with all their retries.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, -1 for the planner; by default all
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``job`` and ``retried``: the tasks, of those that were named the ones that had failed.
    """

    template_fields: Sequence[str] = (*OneJobOperator.template_fields, "tasks")

    def __init__(self, *, tasks: Sequence[int | str] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tasks = tasks
        if not is_template(tasks):
            task_indexes("tasks", tasks)

    def execute(self, context: Context) -> dict[str, Any]:
        group, job = group_name(self.group), job_name(self.job)
        tasks, by = task_indexes("tasks", self.tasks), who_acts(context)
        retried = SparkGroupHook(self.kafka_conn_id).retry_failed(group, job, tasks, by=by)
        self.log.info("Group %s: %s", group, retried_in_words(job, retried))
        return {"job": job, "retried": retried}
