"""Finds the groups that the tasks of a DAG run are about, from the rendered arguments that Airflow keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider.hooks.spark_group import SparkGroupHook


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Whereabouts:
    """A group that a task is about.

    :param conn: its connection, as its tasks name it
    :param job: its name, if the task submits a job or waits for one
    """

    conn: str
    group: str
    job: str = ""


def whereabouts(rendered: Iterable[Mapping[str, Any]]) -> tuple[Whereabouts, ...]:
    """Each group once; with a job, if only one task is about the group.

    :param rendered: the rendered arguments of tasks
    """
    found: dict[tuple[str, str], list[Whereabouts]] = {}
    for fields in rendered:
        group, conn_id = fields.get("group"), fields.get("kafka_conn_id", SparkGroupHook.default_conn_name)
        if isinstance(group, str) and isinstance(conn_id, str) and group:
            job = fields.get("job")
            one = Whereabouts(conn=conn_id, group=group, job=job if isinstance(job, str) else "")
            found.setdefault((conn_id, group), []).append(one)
    return tuple(
        sorted(of[0] if len(of) == 1 else Whereabouts(conn=conn, group=group) for (conn, group), of in found.items())
    )


def rendered_fields(dag_id: str, run_id: str, task_id: str | None, map_index: int | None) -> list[Mapping[str, Any]]:
    """The rendered arguments of a run's tasks, or of one task. There are none for a task that has not begun."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(Rendered.rendered_fields).where(Rendered.dag_id == dag_id, Rendered.run_id == run_id)
    if task_id is not None:
        query = query.where(Rendered.task_id == task_id)
    if map_index is not None:
        query = query.where(Rendered.map_index == map_index)
    with create_session() as session:
        return [fields for fields in session.scalars(query) if isinstance(fields, dict)]
