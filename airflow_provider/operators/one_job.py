"""The base classes of operators that act on a submitted job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.group_task import GroupTask
from airflow_provider.integration.operator_parameters.parameters import group_name, is_template, job_name, task_indexes


class OneJobOperator(GroupTask):
    """The base class with the parameters that name a job.

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


class SomeTasksOperator(OneJobOperator):
    """The base class that also has the parameter that names some of its tasks.

    :param tasks: their indexes; None: all
    """

    template_fields: Sequence[str] = (*OneJobOperator.template_fields, "tasks")

    def __init__(self, *, tasks: Sequence[int | str] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tasks = tasks
        if not is_template(tasks):
            self._indexes()

    def _indexes(self) -> frozenset[int] | None:
        """:raises ValueError: for anything that is not an index"""
        indexes = task_indexes("tasks", self.tasks)
        return None if indexes is None else frozenset(indexes)
