"""Checks who may see the page and act on it, by Airflow's auth manager, on every route.

Groups are not resources of Airflow. The page shows what tasks of DAGs do, log and return, and acts on these. So users
who may see the task instances of all DAGs may see it, and users who may edit them may act. "All DAGs" are those that
can use the connection: of its team, or, if it has none, of every team.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException, Request, status

from airflow_provider.common.airflow_teams import all_teams, team_of
from airflow_provider.ui.allowed_acts import PageActions
from airflow_provider.ui.world import ItsWorld, Team, World

_ALL_DAGS: Final = "~"
"""Airflow's own symbol for all DAGs, which is no DAG's id. If an auth manager is asked about no DAG in particular, as
for a list, it may grant access to a user with a right to any of them (FAB's does). Asked about this one, it grants
access to users with a right to all.
"""

_Right: TypeAlias = tuple[ResourceMethod, DagAccessEntity]

_SEE: Final[tuple[_Right, ...]] = (("GET", DagAccessEntity.TASK_INSTANCE),)
_STEER: Final[tuple[_Right, ...]] = (*_SEE, ("PUT", DagAccessEntity.TASK_INSTANCE))
_DEFINE: Final[tuple[_Right, ...]] = (*_STEER, ("POST", DagAccessEntity.RUN))

ACTING_HEADER = "X-Cospark-Act"
"""Required for every action: no form and no link of another site can send it."""


def may_see(user: GetUserDep) -> None:
    """:raises HTTPException: 401 without a login; 403 for a user without the right"""
    website = get_auth_manager().is_authorized_view(access_view=AccessView.WEBSITE, user=user)
    allowed = website and _may_somewhere(_SEE, user)
    _refuse_unless(allowed, "the page of groups shows the tasks of all DAGs, which you may not see")


def may_see_dag(dag_id: str, user: GetUserDep) -> None:
    """The same check for one DAG, in addition."""
    _refuse_unless(_may("GET", dag_id, team_of(dag_id), user), f"you may not see the tasks of DAG {dag_id!r}")


def can_steer(user: GetUserDep, world: ItsWorld) -> bool:
    """Whether to show the user actions on what is there."""
    return world.actions() is not PageActions.NONE and _may_somewhere(_STEER, user)


def can_define(user: GetUserDep, world: ItsWorld) -> bool:
    """Whether to show the user the forms that submit and alter jobs."""
    return world.actions() is PageActions.ALL and _may_somewhere(_DEFINE, user)


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


def seen_world(user: GetUserDep, world: ItsWorld) -> World:
    """With the connections whose groups the user may see."""
    return replace(world, may_use=_with(_SEE, user))


def steered_world(user: GetUserDep, world: ItsWorld) -> World:
    """With the connections on whose groups the user may act."""
    return replace(world, may_use=_with(_STEER, user))


def defined_world(user: GetUserDep, world: ItsWorld) -> World:
    """With the connections to whose groups the user may submit jobs."""
    return replace(world, may_use=_with(_DEFINE, user))


SeenWorld = Annotated[World, Depends(seen_world)]
SteeredWorld = Annotated[World, Depends(steered_world)]
DefinedWorld = Annotated[World, Depends(defined_world)]


def _may_somewhere(rights: tuple[_Right, ...], user: GetUserDep) -> bool:
    """Whether the user has the rights for any connection that there may be."""
    return any(map(_with(rights, user), (None, *sorted(all_teams()))))


def _with(rights: tuple[_Right, ...], user: GetUserDep) -> Callable[[Team], bool]:
    """Tells whether the user has the rights for connections of a team, and so with all DAGs that can use them: of this
    team; or, of connections without one, of each team and those without a team.
    """

    @cache
    def has(team: Team) -> bool:
        return all(_may(method, _ALL_DAGS, team, user, entity) for method, entity in rights)

    def with_all(team: Team) -> bool:
        return has(team) if team is not None else all(map(has, (None, *sorted(all_teams()))))

    return with_all


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
