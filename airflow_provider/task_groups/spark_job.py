"""The task group of one job: it is submitted, run by workers, and waited for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from types import NoneType
from typing import Any, Final

from airflow.sdk import TaskGroup

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.operator_parameters.entry_points import entry_point_of
from airflow_provider.integration.operator_parameters.parameters import is_template, spelled_as_name, whole_number
from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor
from airflow_provider.spark.job import FunctionJob, SparkJob
from airflow_provider.state.records import TaskKind
from airflow_provider.task_groups.job_output import JobOutput
from airflow_provider.triggers.conditions import JobGoal
from airflow_provider.worker.settings import Until

_SURVIVES: Final[Mapping[str, Any]] = {"retries": 3, "retry_delay": timedelta(seconds=1)}
"""If a task's process is killed. What is wrong fails it without them."""

_AFTER_SUBMIT: Final[Mapping[str, Any]] = {**_SURVIVES, "trigger_rule": "all_success"}
"""Workers that start before the job is there may leave at once: the job of the run before is complete."""

_OF_TASK_GROUPS: Final = frozenset(inspect.signature(TaskGroup).parameters)

_LONGEST: Final = 190
"""A group's and a job's name may become names of folders; a job's also gets a map index."""


class SparkJobTaskGroup(TaskGroup):
    """A job and its workers: ``submit`` submits the job, each ``worker`` runs a share of its tasks, and ``result``
    waits until it is complete and has its results.

    The workers form a group of their own, unless ``group`` names another one, and leave it when the job is complete. If
    a task's process is killed, Airflow tries it again; a worker then comes back as the same one.

    Runs of the DAG can't share workers or a job, so the DAG needs ``max_active_runs=1``, or ``group`` a template that
    is different for each run. A DAG may have several of these task groups, also inside of others. Inside of one that is
    mapped (``@task_group`` with ``expand``), each instance submits a job of its own, and its workers join the same
    group as those of the others: all of them share all tasks.

    For a job that does not end by itself, ``result`` waits until all its tasks run, and the workers stay until the job
    is removed.

    :param group_id: the id of the task group
    :param entry_point: ``package.module:Class``, or the class (or the function with ``@spark_job``) itself. The workers
        must be able to import it, and may import jobs from its module only
    :param config: as in :class:`~airflow_provider.operators.spark_job.SparkJobOperator`
    :param workers: how many workers there are, each with two slots
    :param group: the group of workers; by default ``<dag_id>.<group_id>``
    :param job: the job's name; by default ``<group_id>``. In a mapped task group, ``.<map_index>`` is added, unless it
        is a template
    :param kafka_conn_id: a connection of type ``kafka``
    :param submit_args: further parameters of the :class:`~airflow_provider.operators.spark_job.SparkJobOperator`
    :param worker_args: further parameters of each :class:`~airflow_provider.operators.spark_worker.SparkWorkerOperator`
    :param result_args: further parameters of the :class:`~airflow_provider.sensors.job.JobSensor`

    The other parameters are those of Airflow's ``TaskGroup``. Whatever ``default_args`` say, the three tasks have 3
    ``retries`` with a ``retry_delay`` of a second, workers and ``result`` wait until ``submit`` has succeeded, workers
    leave when the group is drained and import from the job's module only, and ``result`` is deferrable. To change this,
    use the three parameters above.
    """

    def __init__(
        self,
        group_id: str,
        *,
        entry_point: str | type[SparkJob] | FunctionJob,
        config: Mapping[str, Any] | str | None = None,
        workers: int = 2,
        group: str | None = None,
        job: str | None = None,
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        submit_args: Mapping[str, Any] | None = None,
        worker_args: Mapping[str, Any] | None = None,
        result_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        for each in kwargs:
            if each not in _OF_TASK_GROUPS:
                raise ValueError(
                    f"task group {group_id!r}: {each}: is no parameter of a task group. Those of its tasks are given in"
                    " submit_args, worker_args or result_args"
                )
        super().__init__(group_id=group_id, **{"ui_color": SparkJobOperator.ui_color, **kwargs})
        try:
            _check_ids(self)
            code = entry_point_of(entry_point)
            common = {"group": _group_name(self, group), "kafka_conn_id": kafka_conn_id}
            of_job = {**common, "job": _job_name(self, job)}
            of_submit = {**of_job, "entry_point": code, "config": config, "wait_for_completion": False}
            submit = SparkJobOperator(
                task_id="submit", **{**_SURVIVES, **_parameters(self, "submit_args", submit_args, of_submit)}
            )
            _check_other_jobs(self, submit)
            of_workers = {
                **_AFTER_SUBMIT,
                "until": Until.DRAINED.value,
                **_parameters(self, "worker_args", worker_args, common, "worker"),
            }
            if "allowed_entry_points" not in of_workers:
                of_workers["allowed_entry_points"] = [_module_of(code)]
            _check_checkpoints(self, submit, of_workers)
            all_workers = _add_workers(self, _number_of(workers), of_workers)
            of_result = _parameters(self, "result_args", result_args, of_job)
            result = JobSensor(task_id="result", **{**_AFTER_SUBMIT, **_waiting_for(submit), **of_result})
        except ValueError as wrong:
            raise ValueError(f"task group {self.group_id!r}: {wrong}") from wrong
        submit >> [*all_workers, result]

    @property
    def output(self) -> JobOutput:
        """What ``result`` returns, for other tasks: a dict with the return value of each Spark task in ``results``."""
        result: Any = self.get_child_by_label("result")
        return JobOutput(result)


def _check_ids(tasks: Any) -> None:
    """:raises ValueError: if other tasks have the ids of its tasks, which is so only without a prefix"""
    for each in ("submit", "worker", "result"):
        if tasks.child_id(each) in tasks.dag.task_dict:
            raise ValueError(
                f"prefix_group_id: without the task group's id before it, {each!r} is the id of a task that the DAG"
                " already has: leave prefix_group_id out"
            )


def _is_mapped(tasks: TaskGroup) -> bool:
    return next(tasks.iter_mapped_task_groups(), None) is not None


def _group_name(tasks: TaskGroup, given: str | None) -> str:
    """:raises ValueError: if runs of the DAG that may overlap would have the same"""
    dag = tasks.dag
    group = spelled_as_name(f"{dag.dag_id}.{tasks.group_id}", longest=_LONGEST) if given is None else given
    if dag.max_active_runs == 1 or is_template(group):
        return group
    raise ValueError(
        f"group: {group!r} is the same for all runs of DAG {dag.dag_id!r}, of which {dag.max_active_runs} may be active"
        " at the same time: they can't share workers or a job. Give the DAG max_active_runs=1, or each run a group of"
        " its own, by a template with {{ run_id }}"
    )


def _job_name(tasks: TaskGroup, given: str | None) -> str:
    job = spelled_as_name(str(tasks.group_id), longest=_LONGEST) if given is None else given
    return f"{job}.{{{{ ti.map_index }}}}" if _is_mapped(tasks) and not is_template(job) else job


def _parameters(
    tasks: TaskGroup, name: str, given: Mapping[str, Any] | None, own: Mapping[str, Any], *also_own: str
) -> dict[str, Any]:
    """The parameters of a task.

    :param name: of the parameter that gives further ones
    :param own: those that the task group sets
    :raises ValueError: if one of these is given, or no parameters
    """
    if not isinstance(given, (Mapping, NoneType)):
        raise ValueError(f"{name}: {given!r} must be a dict of parameters")
    for each in given or ():
        if each in own or each in ("task_id", "dag", "task_group", *also_own):
            raise ValueError(
                f"{name}: {each!r} is set by the task group: leave it out here. If the task group has a parameter of"
                " that name, use that"
            )
    return {**(given or {}), **own, "dag": tasks.dag, "task_group": tasks}


def _add_workers(tasks: TaskGroup, number: int, parameters: Mapping[str, Any]) -> list[Any]:
    if _is_mapped(tasks):  # in which Airflow maps no single tasks
        names = [f"worker_{place + 1}" for place in range(number)]
        return [SparkWorkerOperator(task_id=name, worker=None, **parameters) for name in names]
    workers = SparkWorkerOperator.partial(task_id="worker", **parameters)
    return [workers.expand(worker=[None] * number)]  # each has its default name


def _check_other_jobs(tasks: TaskGroup, submit: SparkJobOperator) -> None:
    """:raises ValueError: if another task group of the DAG submits a job of the same name to the same group"""
    own = (submit.group, submit.job, submit.kafka_conn_id)
    for task in tasks.dag.tasks:
        other = task.task_group
        if other is tasks or not isinstance(task, SparkJobOperator) or not isinstance(other, SparkJobTaskGroup):
            continue
        if (task.group, task.job, task.kafka_conn_id) == own:
            raise ValueError(
                f"job: task group {other.group_id!r} also submits a job {submit.job!r} to group {submit.group!r}, and"
                " one would replace the other: give them different names"
            )


def _check_checkpoints(tasks: TaskGroup, submit: SparkJobOperator, of_workers: Mapping[str, Any]) -> None:
    """:raises ValueError: if the job's streams have nowhere to keep their checkpoints"""
    if submit.kind != TaskKind.STREAMING.value:
        return
    known = {**tasks.dag.default_args, **tasks.default_args, **of_workers}
    if not known.get("checkpoint_root") and known.get("runner") != "noop":
        raise ValueError(
            "worker_args: the tasks of a streaming job need a checkpoint_root: a folder or URI that all workers reach,"
            " or 'temporary' for trials on one machine"
        )


def _module_of(entry_point: Any) -> str:
    """:raises ValueError: if it is not known yet"""
    if is_template(entry_point):
        raise ValueError(
            f"entry_point: {entry_point!r} is known only when the task runs, so say in worker_args which packages or"
            " modules the workers may import jobs from: {'allowed_entry_points': ['my_jobs']}"
        )
    return str(entry_point).partition(":")[0]


def _number_of(workers: Any) -> int:
    """:raises ValueError: if it is no number, or none yet"""
    if is_template(workers):
        raise ValueError(f"workers: {workers!r} is known only when a task runs, but must be when the DAG is parsed")
    return whole_number("workers", workers, least=1)


def _waiting_for(submit: SparkJobOperator) -> dict[str, Any]:
    endless = submit.kind == TaskKind.STREAMING.value or submit.replan_interval is not None
    goal = JobGoal.RUNNING if endless else JobGoal.FINISHED
    run_key = {} if submit.run_key is None else {"run_key": submit.run_key}
    return {"deferrable": True, "state": goal.value, **run_key}
