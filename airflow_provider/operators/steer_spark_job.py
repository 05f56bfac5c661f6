"""Operators that pause, stop, resume, restart and alter a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider.integration.operator_parameters.parameters import (
    TimeSpan,
    is_template,
    json_map,
    milliseconds,
    text_changes,
    whole_number,
)
from airflow_provider.operators.one_job import SomeTasksOperator
from airflow_provider.operators.steering import SteerSparkJob
from airflow_provider.state.operations.operations import (
    AlterJob,
    HaltJob,
    JobOperation,
    RestartJob,
    ResumeJob,
    StopTasks,
)
from airflow_provider.state.records import Halt, JobError
from airflow_provider.state.records.jobs_topic.session_conf import check_session_conf


class PauseSparkJobOperator(SteerSparkJob):
    """Pauses a job: its tasks stop, but stay assigned where they are, so that resuming it needs no rebalance.

    :param group: the group
    :param job: the job's name
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``subject`` (the job) and ``changed``: False if it was paused already. Fails if there is no such job, or it
    has nothing left to run.
    """

    def _operation(self, job: str) -> JobOperation:
        return HaltJob(job=job, halt=Halt.PAUSED)


class StopSparkJobOperator(SteerSparkJob, SomeTasksOperator):
    """Stops a job, or some of its tasks: they stop and are released, so that other tasks get their slots. Unlike
    removing a job, this keeps their progress.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, which then stay stopped until they are restarted; by default the whole job
    :param kafka_conn_id: a connection of type ``kafka``

    Returns and fails as :class:`PauseSparkJobOperator`. With ``tasks`` it also returns the tasks that were ``stopped``,
    and fails if one of the given tasks has finished or failed.
    """

    def _operation(self, job: str) -> JobOperation:
        tasks = self._indexes()
        return HaltJob(job=job, halt=Halt.STOPPED) if tasks is None else StopTasks(job=job, tasks=tasks)


class ResumeSparkJobOperator(SteerSparkJob):
    """Runs a paused or stopped job again.

    :param group: the group
    :param job: the job's name
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``subject`` (the job) and ``changed``. Fails if there is no such job.
    """

    def _operation(self, job: str) -> JobOperation:
        return ResumeJob(job=job)


class RestartSparkJobOperator(SteerSparkJob, SomeTasksOperator):
    """Restarts a job. Running tasks restart where they are, without a rebalance; failed tasks are tried again, with all
    their retries (in a classic group without a rebalance, if their worker still has them); tasks that were stopped
    individually run again. Finished tasks stay finished.

    :param group: the group
    :param job: the job's name
    :param tasks: the indexes of some tasks, -1 for the planner; by default all, and the planner
    :param only_failed: only try failed tasks again; leave running tasks alone
    :param kafka_conn_id: a connection of type ``kafka``

    Returns ``subject`` (the job), ``changed``, and the tasks that are ``restarted``, ``retried`` (had failed),
    ``resumed`` (had been stopped individually), and those of ``tasks`` that have ``finished``. Fails if there is no
    such job or task.
    """

    def __init__(self, *, only_failed: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.only_failed = only_failed

    def _operation(self, job: str) -> JobOperation:
        return RestartJob(job=job, tasks=self._indexes(), only_failed=self.only_failed)


class AlterSparkJobOperator(SteerSparkJob):
    """Changes the definition of a running job. It is planned again, and only tasks whose own configs change are
    restarted. If the job does not accept the config, its planner refuses it, and its tasks continue.

    What is not given stays as it is. Submitting the job again (:class:`~.spark_job.SparkJobOperator`) replaces all of
    it.

    :param group: the group
    :param job: the job's name
    :param config: changes of its config, by key; None removes a key
    :param session_conf: changes of its Spark settings, likewise; each Spark task has them from its next start on
    :param if_version: only if this is still the job's version, as the hook's ``describe_job`` tells it, so that a
        change made meanwhile is not overwritten
    :param max_tasks: the most tasks a plan may have
    :param task_retries: how often a failed Spark task is tried again
    :param task_retry_delay: how long to wait before the first of these; then it grows
    :param task_timeout: how long an attempt of a Spark task may take
    :param replan_interval: how long after a plan to plan again
    :param stall_after: after how long without a batch a stream counts as stalled
    :param kafka_conn_id: a connection of type ``kafka``

    All times are timedeltas, or seconds.

    Returns ``subject`` (the job) and ``changed``: False if nothing was different. Fails if there is no such job, if its
    version is another, or a value is not acceptable.
    """

    template_fields: Sequence[str] = (
        *SteerSparkJob.template_fields,
        "config",
        "session_conf",
        "if_version",
        "max_tasks",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"config": "json", "session_conf": "json"}

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | str | None = None,
        session_conf: Mapping[str, Any] | str | None = None,
        if_version: int | str | None = None,
        max_tasks: int | str | None = None,
        task_retries: int | None = None,
        task_retry_delay: TimeSpan | None = None,
        task_timeout: TimeSpan | None = None,
        replan_interval: TimeSpan | None = None,
        stall_after: TimeSpan | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config or {}
        self.session_conf = session_conf or {}
        self.if_version = if_version
        self.max_tasks = max_tasks
        self.task_retries = task_retries
        self.task_retry_delay = task_retry_delay
        self.task_timeout = task_timeout
        self.replan_interval = replan_interval
        self.stall_after = stall_after
        self._times()
        if max_tasks is not None and not is_template(max_tasks):
            whole_number("max_tasks", max_tasks, least=1)
        if not is_template(if_version):
            self._version()
        if not is_template(config):
            json_map("config", self.config)
        if not is_template(session_conf):
            self._check_conf()

    def _times(self) -> dict[str, int]:
        """:raises ValueError: for anything that is not a time"""
        times = {
            "retry_delay_ms": ("task_retry_delay", self.task_retry_delay, 0),
            "timeout_ms": ("task_timeout", self.task_timeout, 1),
            "replan_interval_ms": ("replan_interval", self.replan_interval, 1),
            "stall_after_ms": ("stall_after", self.stall_after, 1),
        }
        return {
            field: milliseconds(name, value, least_ms=least)
            for field, (name, value, least) in times.items()
            if value is not None
        }

    def _version(self) -> int | None:
        """:raises ValueError: for anything that is not a version"""
        return None if self.if_version is None else whole_number("if_version", self.if_version, least=0)

    def _check_conf(self) -> None:
        """:raises ValueError: for settings that no job may have"""
        given = {name: value for name, value in self._changed_conf().items() if value is not None}
        try:
            check_session_conf("", given)
        except JobError as wrong:
            raise ValueError(f"{wrong.field_name}: {wrong.advice}") from wrong

    def _changed_conf(self) -> dict[str, str | None]:
        """:raises ValueError: for anything that is not settings by name"""
        return text_changes("session_conf", self.session_conf)

    def _operation(self, job: str) -> JobOperation:
        settings = self._times()
        if self.max_tasks is not None:
            settings["max_tasks"] = whole_number("max_tasks", self.max_tasks, least=1)
        if self.task_retries is not None:
            settings["retries"] = self.task_retries
        return AlterJob(
            job=job,
            defined_at=self._version(),
            config=json_map("config", self.config),
            session_conf=self._changed_conf(),
            settings=settings,
        )
