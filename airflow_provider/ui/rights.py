"""Checks who may see the page and act on it, by Airflow's auth manager, on every route.

Groups are not resources of Airflow. The page shows what tasks of DAGs do, log and return, and acts on these. So users
who may see the task instances of all DAGs may see it, and users who may edit them may act. The groups of a
connection may be those of any team's DAGs, so "all DAGs" means the DAGs of every team.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import HTTPException, Request, status

from airflow_provider.common.airflow_teams import all_teams, team_of
from airflow_provider.ui.allowed_acts import PageActions
from airflow_provider.ui.world import ItsWorld

_ALL_DAGS: Final = "~"
"""Airflow's own symbol for all DAGs, which is no DAG's id. If an auth manager is asked about no DAG in particular, as
for a list, it may grant access to a user with a right to any of them (FAB's does). Asked about this one, it grants
access to users with a right to all.
"""

ACTING_HEADER = "X-Cospark-Act"
"""Required for every action: no form and no link of another site can send it."""


def may_see(user: GetUserDep) -> None:
    """:raises HTTPException: 401 without a login; 403 for a user without the right"""
    website = get_auth_manager().is_authorized_view(access_view=AccessView.WEBSITE, user=user)
    allowed = website and _may_with_all_dags("GET", user)
    _refuse_unless(allowed, "the page of groups shows the tasks of all DAGs, which you may not see")


def may_see_dag(dag_id: str, user: GetUserDep) -> None:
    """The same check for one DAG, in addition."""
    _refuse_unless(_may("GET", dag_id, team_of(dag_id), user), f"you may not see the tasks of DAG {dag_id!r}")


def can_steer(user: GetUserDep, world: ItsWorld) -> bool:
    """Whether to show the user actions on what is there."""
    return world.actions() is not PageActions.NONE and _may_with_all_dags("PUT", user)


def can_define(user: GetUserDep, world: ItsWorld) -> bool:
    """Whether to show the user the forms that submit and alter jobs."""
    return (
        world.actions() is PageActions.ALL
        and can_steer(user, world)
        and _may_with_all_dags("POST", user, DagAccessEntity.RUN)
    )


def may_steer(request: Request, user: GetUserDep, world: ItsWorld) -> str:
    """Check that the user may act on what is there, and return the user's name.

    :raises HTTPException: for a user without the right, and for a request that does not come from the page itself
    """
    _refuse_unless(
        can_steer(user, world),
        "to act on groups one must be allowed to edit the tasks of all DAGs, and the page to steer"
        f" (page_actions in [cooperative_spark]: {world.actions().value})",
    )
    _refuse_unless(request.headers.get(ACTING_HEADER) == "1", f"the header {ACTING_HEADER} is missing")
    _refuse_unless(_is_same_origin(request), "the request comes from another site")
    return user.get_name()


def may_see_configs(user: GetUserDep, world: ItsWorld) -> None:
    """Check that the user may see configs of jobs, as only users who may change them do.

    :raises HTTPException: for a user without the right
    """
    _refuse_unless(
        can_define(user, world),
        "to submit and alter jobs, and to see their configs, one must be allowed to edit the tasks and create the runs"
        f" of all DAGs, and the page to do all (page_actions in [cooperative_spark]: {world.actions().value})",
    )


def may_define(request: Request, user: GetUserDep, world: ItsWorld) -> str:
    """Check that the user may submit and alter jobs, and return the user's name.

    :raises HTTPException: as for :func:`may_steer`
    """
    may_see_configs(user, world)
    return may_steer(request, user, world)


def _may_with_all_dags(
    method: ResourceMethod, user: GetUserDep, entity: DagAccessEntity = DagAccessEntity.TASK_INSTANCE
) -> bool:
    """Whether the user may do it with all DAGs: those without a team, and those of each team."""
    return all(_may(method, _ALL_DAGS, team, user, entity) for team in (None, *sorted(all_teams())))


def _may(
    method: ResourceMethod,
    dag_id: str,
    team: str | None,
    user: GetUserDep,
    entity: DagAccessEntity = DagAccessEntity.TASK_INSTANCE,
) -> bool:
    details = DagDetails(id=dag_id) if team is None else DagDetails(id=dag_id, team_name=team)
    return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)


def _is_same_origin(request: Request) -> bool:
    """Whether the page itself sent it. Browsers send one of both headers with all requests that may change anything;
    a proxy may have changed the host.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _refuse_unless(allowed: bool, why: str) -> None:
    if not allowed:
        raise HTTPException(status.HTTP_403_FORBIDDEN, why)
