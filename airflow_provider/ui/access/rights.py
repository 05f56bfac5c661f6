"""Checks who may see the page and act on it, by Airflow's auth manager, on every route.

Groups are not resources of Airflow. The page shows what tasks of DAGs do, log and return, and acts on these. So users
who may see the task instances of all DAGs that can use a connection see its groups, and users who may edit them act.
A team's connection can be used by the team's DAGs, any other by those of every team, and by those without one.
"""

from __future__ import annotations

from collections.abc import Container, Set
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException, Request, status

from airflow_provider.integration.airflow_api.airflow_teams import all_teams, team_of
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.allowed_acts import PageActions
from airflow_provider.ui.world import ItsWorld

_ALL_DAGS: Final = "~"
"""Airflow's own symbol for all DAGs, which is no DAG's id. If an auth manager is asked about no DAG in particular, as
for a list, it may grant access to a user with a right to any of them (FAB's does). Asked about this one, it grants
access to users with a right to all.
"""

ACTING_HEADER = "X-Cospark-Act"
"""Required for every action: no form and no link of another site can send it."""


@dataclass(frozen=True, slots=True)
class _Right:
    """A right to do something with all DAGs, as Airflow has it.

    :param actions: with which of these the page can do it
    :param needed: who may do it, in words
    """

    method: ResourceMethod
    entity: DagAccessEntity
    actions: Container[PageActions]
    needed: str


_SEE: Final = _Right(
    "GET",
    DagAccessEntity.TASK_INSTANCE,
    frozenset(PageActions),
    "the page of groups shows the tasks of all DAGs, or of all DAGs of a team, which you may not see",
)
_STEER: Final = _Right(
    "PUT",
    DagAccessEntity.TASK_INSTANCE,
    {PageActions.STEER, PageActions.ALL},
    "to act on groups one must be allowed to edit the tasks of all DAGs that can use the connection, and the page"
    " to steer",
)
_DEFINE: Final = _Right(
    "POST",
    DagAccessEntity.RUN,
    {PageActions.ALL},
    "to submit and alter jobs, and to see their configs, one must be allowed to edit the tasks and create the runs of"
    " all DAGs that can use the connection, and the page to do all",
)


def may_see(user: GetUserDep, world: ItsWorld) -> Visit:
    """:raises HTTPException: 401 without a login; 403 for a user without the right"""
    website = get_auth_manager().is_authorized_view(access_view=AccessView.WEBSITE, user=user)
    sees = _teams(_SEE, user) if website else frozenset[str]()
    _refuse_unless(bool(sees), _SEE.needed)
    return Visit(world=world, by=user.get_name(), sees=sees, does=sees, needed=_SEE.needed)


Seeing = Annotated[Visit, Depends(may_see)]


def may_see_dag(dag_id: str, user: GetUserDep) -> None:
    """The same check for one DAG, in addition."""
    _refuse_unless(_may("GET", dag_id, team_of(dag_id), user), f"you may not see the tasks of DAG {dag_id!r}")


def can_steer(user: GetUserDep, visit: Seeing) -> Visit:
    """For which teams to show the user actions on what is there."""
    return _with(_STEER, user, visit)


def can_define(user: GetUserDep, visit: Annotated[Visit, Depends(can_steer)]) -> Visit:
    """For which teams to show the user the forms that submit and alter jobs."""
    return _with(_DEFINE, user, visit)


def may_steer(request: Request, visit: Annotated[Visit, Depends(can_steer)]) -> Visit:
    """Check that the user may act on what is there.

    :raises HTTPException: for a user without the right, and for a request that does not come from the page itself
    """
    _refuse_unless(bool(visit.does), visit.needed)
    _refuse_unless(request.headers.get(ACTING_HEADER) == "1", f"the header {ACTING_HEADER} is missing")
    _refuse_unless(_is_same_origin(request), "the request comes from another site")
    return visit


def may_see_configs(visit: Annotated[Visit, Depends(can_define)]) -> Visit:
    """Check that the user may see configs of jobs, as only users who may change them do.

    :raises HTTPException: for a user without the right
    """
    _refuse_unless(bool(visit.does), visit.needed)
    return visit


def may_define(request: Request, visit: Annotated[Visit, Depends(can_define)]) -> Visit:
    """Check that the user may submit and alter jobs, as :func:`may_steer` does for what is there."""
    return may_steer(request, visit)


def _with(right: _Right, user: BaseUser, visit: Visit) -> Visit:
    """The visit, for what needs one more right."""
    actions = visit.world.actions()
    does = visit.does & _teams(right, user) if actions in right.actions else frozenset[str]()
    needed = f"{right.needed} (page_actions in [cooperative_spark]: {actions.value})"
    return replace(visit, does=does, needed=needed)


def _teams(right: _Right, user: BaseUser) -> Set[str | None]:
    """The teams with all of whose DAGs the user may do it; and None, if the user may with all DAGs: those of each team,
    and those without one.
    """
    teams = all_teams()
    allowed: set[str | None] = {team for team in teams if _may(right.method, _ALL_DAGS, team, user, right.entity)}
    if allowed == teams and _may(right.method, _ALL_DAGS, None, user, right.entity):
        allowed.add(None)
    return allowed


def _may(
    method: ResourceMethod,
    dag_id: str,
    team: str | None,
    user: BaseUser,
    entity: DagAccessEntity = DagAccessEntity.TASK_INSTANCE,
) -> bool:
    details = DagDetails(id=dag_id) if team is None else DagDetails(id=dag_id, team_name=team)
    return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)


def _is_same_origin(request: Request) -> bool:
    """Whether the page itself sent it. Browsers send one of the two headers with all requests that may change anything;
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
