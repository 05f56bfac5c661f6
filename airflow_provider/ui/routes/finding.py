"""Finds the groups for a page that is shown next to a DAG run or a task instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from airflow_provider.hooks.whereabouts import Whereabouts, rendered_fields, whereabouts
from airflow_provider.integration.airflow_api.airflow_teams import team_of
from airflow_provider.ui.access.rights import Seeing, may_see_dag

router: Final = APIRouter(prefix="/api")

_NO_NUL: Final = r"^[^\x00]*$"
"""Airflow's database can't be asked for other texts, nor for larger numbers."""

Id = Annotated[str, Query(min_length=1, max_length=250, pattern=_NO_NUL)]
TaskIdOrNone = Annotated[str | None, Query(max_length=250, pattern=_NO_NUL)]
MapIndex = Annotated[int | None, Query(ge=-1, le=2**31 - 1)]


@router.get("/find", dependencies=[Depends(may_see_dag)])
def find(
    visit: Seeing, dag_id: Id, run_id: Id, task_id: TaskIdOrNone = None, map_index: MapIndex = None
) -> list[Whereabouts]:
    """The groups that a DAG run, or one of its tasks, is about."""
    found = whereabouts(rendered_fields(dag_id, run_id, task_id or None, map_index))
    team = team_of(dag_id)
    return [replace(one, conn=visit.conn_of(one.conn, team)) for one in found]
