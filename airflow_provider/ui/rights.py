"""Who may see the page and act on it: Airflow's auth manager is asked, on every route.

Groups are no resources of Airflow's. What the page shows is what tasks of DAGs do, say and return, and what it does is
done to them: so who may see the task instances of all DAGs may see it, and who may edit them may act.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import HTTPException, Request, status

_ALL_DAGS: Final = DagDetails(id="~")
"""Airflow's own sign for all DAGs, and the id of none. An auth manager that is asked about no DAG in particular, as for
a list, may say yes to who has a right to any one of them (FAB's does); about this one it does to who has it to all.
"""

ACTING_HEADER = "X-Cospark-Act"
"""Without it nothing is done: no form and no link of another site can send it."""


def may_see(user: GetUserDep) -> None:
    """:raises HTTPException: 401 without a login; 403 for a user without the right"""
    manager = get_auth_manager()
    allowed = manager.is_authorized_view(access_view=AccessView.WEBSITE, user=user) and manager.is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.TASK_INSTANCE, details=_ALL_DAGS, user=user
    )
    _refuse_unless(allowed, "the page of groups shows the tasks of all DAGs, which you may not see")


def may_see_dag(dag_id: str, user: GetUserDep) -> None:
    """The same for one DAG, in addition."""
    allowed = get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.TASK_INSTANCE, details=DagDetails(id=dag_id), user=user
    )
    _refuse_unless(allowed, f"you may not see the tasks of DAG {dag_id!r}")


def can_act(user: GetUserDep) -> bool:
    """Whether to offer what the user may do."""
    return get_auth_manager().is_authorized_dag(
        method="PUT", access_entity=DagAccessEntity.TASK_INSTANCE, details=_ALL_DAGS, user=user
    )


def may_prepare(user: GetUserDep) -> None:
    """May the user see configs of jobs? Only users who may act.

    :raises HTTPException: for a user without the right
    """
    _refuse_unless(can_act(user), "configs are shown to those who may edit the tasks of all DAGs")


def may_act(request: Request, user: GetUserDep) -> str:
    """:returns: the user's name
    :raises HTTPException: for a user without the right, and for what does not come from the page itself
    """
    _refuse_unless(can_act(user), "to act on groups one must be allowed to edit the tasks of all DAGs")
    _refuse_unless(request.headers.get(ACTING_HEADER) == "1", f"the header {ACTING_HEADER} is missing")
    _refuse_unless(_is_same_origin(request), "the request comes from another site")
    return user.get_name()


def _is_same_origin(request: Request) -> bool:
    """Browsers send one of both with all that may change something; a proxy may have changed the host."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _refuse_unless(allowed: bool, why: str) -> None:
    if not allowed:
        raise HTTPException(status.HTTP_403_FORBIDDEN, why)
