"""Has failed tasks of a job tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.common.parameters import group_name, is_template, job_name, task_indexes
from airflow_provider.common.task_instance import who_acts
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.ledger.retrying import retried_in_words

if TYPE_CHECKING:
    from airflow.sdk import Context


class RetrySparkJobOperator(BaseOperator):
    """Has those tasks of a job's present run tried again that failed for good, with all their retries.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, -1 for the planner; by default all
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``job`` and ``retried``: the tasks, of those that were named the ones that had failed.
    """

    template_fields: Sequence[str] = ("group", "job", "tasks", "kafka_conn_id")
    ui_color = "#f7e3b5"

    def __init__(
        self,
        *,
        group: str,
        job: str,
        tasks: Sequence[int | str] | str | None = None,
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.job = job
        self.tasks = tasks
        self.kafka_conn_id = kafka_conn_id
        if not is_template(group):
            group_name(group)
        if not is_template(job):
            job_name(job)
        if not is_template(tasks):
            task_indexes("tasks", tasks)

    def execute(self, context: Context) -> dict[str, Any]:
        group, job = group_name(self.group), job_name(self.job)
        tasks, by = task_indexes("tasks", self.tasks), who_acts(context)
        retried = SparkGroupHook(self.kafka_conn_id).retry_failed(group, job, tasks, by=by)
        self.log.info("Group %s: %s", group, retried_in_words(job, retried))
        return {"job": job, "retried": retried}
