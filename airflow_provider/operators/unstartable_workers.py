"""The workers of a group that can't start before a task that waits for their work."""

from __future__ import annotations

from typing import Any

from airflow.sdk import TriggerRule

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.spark_worker import SparkWorkerOperator


def workers_after(task: Any) -> list[str]:
    """The ids of the workers that the task's DAG has for its group, if all of them start only after the task."""
    if not task.has_dag():
        return []
    written = task.dag.get_task(task.task_id)  # the running one is rendered, the others are not
    group = _group_of(written)
    workers = [each.task_id for each in task.dag.tasks if _is_worker(each) and _group_of(each) == group]
    return sorted(workers) if _held_back_by(written).issuperset(workers) else []


def _held_back_by(task: Any) -> set[str]:
    """The ids of the tasks that can't start before this one has ended."""
    held, look = set[str](), [task]
    while look:
        for each in look.pop().downstream_list:
            if each.task_id not in held and not TriggerRule(each.trigger_rule).value.startswith(("always", "one_")):
                held.add(each.task_id)
                look.append(each)
    return held


def _is_worker(task: Any) -> bool:
    kind = getattr(task, "operator_class", type(task))
    return isinstance(kind, type) and issubclass(kind, SparkWorkerOperator)


def _group_of(task: Any) -> tuple[Any, ...]:
    """What is written for group and connection; of a mapped task, what is the same for all."""
    if task.is_mapped:
        given = task.partial_kwargs
        return given.get("group"), given.get("kafka_conn_id", SparkGroupHook.default_conn_name)
    return task.group, task.kafka_conn_id
