"""Steers a job that was submitted: pauses, stops, resumes, restarts and alters it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider.common.parameters import TimeSpan, is_template, milliseconds, task_indexes, whole_number
from airflow_provider.operations.operations import AlterJob, HaltJob, JobOperation, RestartJob, ResumeJob, StopTasks
from airflow_provider.operators.steering import SteerSparkJob
from airflow_provider.records import Halt


class PauseSparkJobOperator(SteerSparkJob):
    """Has a job run no more for now: its tasks stop, and stay where they are assigned, so that they go on there without
    a rebalance when it is resumed.

    :param group: the group
    :param job: the job's name
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``subject`` (the job) and ``changed``: whether it was not paused already. Fails if there is no such job, or
    nothing is left to run of it.
    """

    def _operation(self, job: str) -> JobOperation:
        return HaltJob(job=job, halt=Halt.PAUSED)


class StopSparkJobOperator(SteerSparkJob):
    """Has a job run no more for now: its tasks stop and are given up, so that others get their places. Nothing is
    forgotten, as it is when a job is removed.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, which then stay stopped until they are restarted; by default the job
    :param kafka_conn_id: a connection of type ``kafka``

    Returns and fails as :class:`PauseSparkJobOperator`; with ``tasks`` also returns those that it has ``stopped``, and
    fails if one that is named has ended.
    """

    template_fields: Sequence[str] = (*SteerSparkJob.template_fields, "tasks")

    def __init__(self, *, tasks: Sequence[int | str] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tasks = tasks
        if not is_template(tasks):
            task_indexes("tasks", tasks)

    def _operation(self, job: str) -> JobOperation:
        indexes = task_indexes("tasks", self.tasks)
        return HaltJob(job=job, halt=Halt.STOPPED) if indexes is None else StopTasks(job=job, tasks=frozenset(indexes))


class ResumeSparkJobOperator(SteerSparkJob):
    """Has a job run again that was paused or stopped.

    :param group: the group
    :param job: the job's name
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``subject`` (the job) and ``changed``. Fails if there is no such job.
    """

    def _operation(self, job: str) -> JobOperation:
        return ResumeJob(job=job)


class RestartSparkJobOperator(SteerSparkJob):
    """Has what runs of a job start anew where it is, without a rebalance, what has failed tried again, with all its
    retries, and tasks run again that were stopped one by one. What has finished stays finished.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, -1 for the planner; by default all, and the planner
    :param only_failed: leave alone what has not failed
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``subject`` (the job), ``changed``, and the tasks that were ``restarted``, are ``retried``, were stopped and
    are ``resumed``, and, of those that were named, have ``finished``. Fails if there is no such job or task.
    """

    template_fields: Sequence[str] = (*SteerSparkJob.template_fields, "tasks")

    def __init__(
        self, *, tasks: Sequence[int | str] | str | None = None, only_failed: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.tasks = tasks
        self.only_failed = only_failed
        if not is_template(tasks):
            task_indexes("tasks", tasks)

    def _operation(self, job: str) -> JobOperation:
        indexes = task_indexes("tasks", self.tasks)
        tasks = None if indexes is None else frozenset(indexes)
        return RestartJob(job=job, tasks=tasks, only_failed=self.only_failed)


class AlterSparkJobOperator(SteerSparkJob):
    """Defines a job otherwise while it runs. It is planned anew, and only those of its tasks start anew whose own
    configurations become others. A config that the job does not accept its planner refuses, and its tasks go on.

    What is not given stays as it is. Who submits the job again (:class:`~.spark_job.SparkJobOperator`) defines all of
    it.

    :param group: the group
    :param job: the job's name
    :param config: changes of its config, by key: None takes a key away
    :param max_tasks: the most tasks a plan may have
    :param task_retries: how often a failed Spark task is tried again
    :param task_retry_delay: how long to wait before that
    :param task_timeout: how long an attempt of a Spark task may take
    :param replan_interval: plan again after so long
    :param kafka_conn_id: a connection of type ``kafka``

    All times are timedeltas, or seconds.

    Returns ``subject`` (the job) and ``changed``: whether it was not so already. Fails if there is no such job, or what
    is asked can't be accepted.
    """

    template_fields: Sequence[str] = (*SteerSparkJob.template_fields, "config", "max_tasks")
    template_fields_renderers: ClassVar[dict[str, str]] = {"config": "json"}

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        max_tasks: int | str | None = None,
        task_retries: int | None = None,
        task_retry_delay: TimeSpan | None = None,
        task_timeout: TimeSpan | None = None,
        replan_interval: TimeSpan | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config or {}
        self.max_tasks = max_tasks
        self.task_retries = task_retries
        self.task_retry_delay = task_retry_delay
        self.task_timeout = task_timeout
        self.replan_interval = replan_interval
        self._times()
        if max_tasks is not None and not is_template(max_tasks):
            whole_number("max_tasks", max_tasks, least=1)

    def _times(self) -> dict[str, int]:
        """:raises ValueError: for what is no time"""
        times = {
            "retry_delay_ms": ("task_retry_delay", self.task_retry_delay, 0),
            "timeout_ms": ("task_timeout", self.task_timeout, 1),
            "replan_interval_ms": ("replan_interval", self.replan_interval, 1),
        }
        return {
            field: milliseconds(name, value, least_ms=least)
            for field, (name, value, least) in times.items()
            if value is not None
        }

    def _operation(self, job: str) -> JobOperation:
        settings = self._times()
        if self.max_tasks is not None:
            settings["max_tasks"] = whole_number("max_tasks", self.max_tasks, least=1)
        if self.task_retries is not None:
            settings["retries"] = self.task_retries
        return AlterJob(job=job, config=self.config, settings=settings)
