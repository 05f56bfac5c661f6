"""``@task.cospark``: a function ``(spark, task)`` in a DAG file becomes a job with a task group of its own.

No code is sent to anybody. A job is named by where its function is, and workers import that, as any other job.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, overload

from msgspec import Meta

from airflow_provider.integration.operator_parameters.parameters import is_template
from airflow_provider.spark.job import FunctionJob, JobContext, RunFunction, SparkJob
from airflow_provider.task_groups.job_output import JobOutput
from airflow_provider.task_groups.spark_job import SparkJobTaskGroup


@dataclass
class TaskConfigs:
    """The config of such a job."""

    tasks: Annotated[list[dict[str, Any]], Meta(description="the config of each Spark task")]


class CosparkJob(FunctionJob):
    """What the function's name stands for in its module: workers import it and run it, DAGs call it.

    :param function: the function, as it is written
    :param parameters: those of the :class:`~airflow_provider.task_groups.spark_job.SparkJobTaskGroup`
    """

    def __init__(self, function: RunFunction, parameters: Mapping[str, Any]) -> None:
        super().__init__(function, _as_configured, config_schema=TaskConfigs)
        self.function = function
        self._parameters = parameters

    def __call__(self, config: Any = None) -> JobOutput:  # type: ignore[override]  # as with each of Airflow's @task
        """Add a job with one Spark task to the DAG.

        :param config: the task's config, a JSON object, or what another task returns
        """
        return self._add([{} if config is None else config])

    def expand(self, *, config: Any) -> JobOutput:
        """Add a job with many Spark tasks to the DAG.

        :param config: a list with the config of each task, or what another task returns
        """
        return self._add(config)

    def override(self, **parameters: Any) -> CosparkJob:
        """The same job with other parameters."""
        return CosparkJob(self.function, {**self._parameters, **parameters})

    def _add(self, configs: Any) -> JobOutput:
        known: dict[str, Any] = {"group_id": self.__name__, "add_suffix_on_collision": True, **self._parameters}
        _check(configs, self.__name__)
        return SparkJobTaskGroup(entry_point=self, config={"tasks": configs}, **known).output


def _as_configured(job: JobContext) -> list[dict[str, Any]]:
    return [dict(config) for config in job.config["tasks"]]


def _check(configs: Any, name: str) -> None:
    """:raises ValueError: if these are no configs, as far as they are known yet"""
    if _comes_later(configs):
        return
    if isinstance(configs, (str, Mapping)) or not isinstance(configs, Sequence):
        raise ValueError(
            f"@task.cospark {name}: config: {configs!r} must be a list with a JSON object for each Spark task, or what"
            " another task returns"
        )
    for each in configs:
        if not isinstance(each, Mapping) and not _comes_later(each):
            raise ValueError(
                f"@task.cospark {name}: config: {each!r} must be a JSON object, the config of a Spark task"
            )


def _comes_later(value: Any) -> bool:
    """Whether it is the output of another task. The text of a template would stay text in a config."""
    return is_template(value) and not isinstance(value, (str, Mapping, Sequence))


@overload
def cospark_task(function: RunFunction, /) -> CosparkJob: ...


@overload
def cospark_task(**parameters: Any) -> Callable[[RunFunction], CosparkJob]: ...


def cospark_task(
    function: RunFunction | None = None, /, **parameters: Any
) -> CosparkJob | Callable[[RunFunction], CosparkJob]:
    """The decorator ``@task.cospark``: makes a job from a function ``(spark, task)`` at the top of a DAG file or of
    another module.

    Called in a DAG, the function adds a :class:`~airflow_provider.task_groups.spark_job.SparkJobTaskGroup` to it and
    returns its ``output``: ``count(config={...})`` one with a single Spark task, ``count.expand(config=[{...}, ...])``
    one with a Spark task for each config. As the workers import the function by its name, it can't be defined inside of
    another one, as under ``@dag``.

    :param parameters: those of the task group, except ``entry_point`` and ``config``; ``group_id`` is by default the
        function's name
    """
    for each in ("entry_point", "config"):
        if each in parameters:
            raise ValueError(
                f"@task.cospark: {each}: the function is the job, and a call of it in the DAG has the config"
            )

    def decorate(function: RunFunction) -> CosparkJob:
        _check_function(function)
        return CosparkJob(function, parameters)

    return decorate if function is None else decorate(function)


def _check_function(function: Any) -> None:
    """:raises ValueError: if it is not a function of the session and the task"""
    if isinstance(function, (SparkJob, type)) or not callable(function):
        raise ValueError(
            f"@task.cospark: {function!r} must be a plain function. A SparkJob, or what @spark_job makes, is the"
            " entry_point of a SparkJobTaskGroup"
        )
    try:
        inspect.signature(function).bind("spark", "task")
    except TypeError as wrong:
        raise ValueError(
            f"@task.cospark: {function.__name__} must take two arguments, the Spark session and the task, whose config"
            " has what it is to do: def count(spark, task)"
        ) from wrong
