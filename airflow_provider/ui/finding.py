"""Finds the groups for a page that is shown next to a DAG run or a task instance."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from airflow_provider.ui.rights import may_see_dag
from airflow_provider.ui.whereabouts import Whereabouts, rendered_fields, whereabouts

router: Final = APIRouter(prefix="/api")

_NO_NUL: Final = r"^[^\x00]*$"
"""Airflow's database can't be asked for other texts, nor for larger numbers."""

Id = Annotated[str, Query(min_length=1, max_length=250, pattern=_NO_NUL)]
TaskIdOrNone = Annotated[str | None, Query(max_length=250, pattern=_NO_NUL)]
MapIndex = Annotated[int | None, Query(ge=-1, le=2**31 - 1)]


@router.get("/find", dependencies=[Depends(may_see_dag)])
def find(dag_id: Id, run_id: Id, task_id: TaskIdOrNone = None, map_index: MapIndex = None) -> list[Whereabouts]:
    """The groups that a DAG run, or one of its tasks, is about."""
    return list(whereabouts(rendered_fields(dag_id, run_id, task_id or None, map_index)))
