"""The page where Airflow has two teams: who belongs to one of them does not see or steer the other's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow import settings
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team, dag_bundle_team_association_table
from airflow.utils.session import create_session
from fastapi import HTTPException
from page_bench import Page, StillTopics, make_page

from airflow_provider.ui.rights import ACTING_HEADER, may_see_dag

OURS = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
TEAMS = ("red", "blue")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """In an Airflow that has a DAG of each team."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    tables = [DagBundleModel.__table__, Team.__table__, dag_bundle_team_association_table, DagModel.__table__]
    Team.metadata.create_all(settings.engine, tables=tables)
    try:
        with create_session() as session:
            for name in TEAMS:
                bundle = DagBundleModel(name=f"bundle_{name}")
                bundle.teams = [Team(name=name)]
                session.add(bundle)
                session.flush()
                dag = DagModel(dag_id=f"dag_{name}", bundle_name=bundle.name)  # type: ignore[no-untyped-call]
                session.add(dag)
        yield make_page(StillTopics())
    finally:
        Team.metadata.drop_all(settings.engine, tables=tables)


def test_every_route_refuses_who_belongs_to_one_team_only(page: Page) -> None:
    for role, teams in (("VIEWER", ["blue"]), ("OP", ["red"]), ("OP", [])):
        with page.browser(role, teams) as browser:
            answers = {route: browser.request(*route, headers=OURS).status_code for route in page.routes}
        assert answers == dict.fromkeys(page.routes, 403), (role, teams)
    assert not page.begun


@pytest.mark.parametrize(("role", "teams"), [("USER", list(TEAMS)), ("ADMIN", [])])
def test_who_belongs_to_all_teams_sees_and_acts(page: Page, role: str, teams: list[str]) -> None:
    with page.browser(role, teams) as browser:
        shown = browser.get("/")
    assert (shown.status_code, 'data-steers="1"' in shown.text) == (200, True)


def test_a_dag_is_seen_by_its_own_team(page: Page) -> None:
    """Whatever the user may see besides."""
    user = SimpleAuthManagerUser(username="ann", role="VIEWER", teams=["blue"])
    with page.browser("VIEWER", ["blue"]):
        may_see_dag("dag_blue", user)
        with pytest.raises(HTTPException, match="you may not see the tasks of DAG 'dag_red'"):
            may_see_dag("dag_red", user)
