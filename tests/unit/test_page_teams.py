"""The page where Airflow has two teams: who belongs to one of them does not see or steer the other's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from airflow import settings
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team, dag_bundle_team_association_table
from airflow.utils.session import create_session
from fastapi import HTTPException
from page_bench import Page, StillTopics, make_page

from airflow_provider.common import one_shot
from airflow_provider.hooks.shown_connections import Named, of_airflow
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.protocol.model import TaskId
from airflow_provider.ui import turns
from airflow_provider.ui.rights import ACTING_HEADER, may_see_dag

OURS = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
TEAMS = ("red", "blue")
CONNECTIONS = (Named("kafka_all"), Named("kafka_red", "red"), Named("kafka_blue", "blue"))
ANY: dict[str, Any] = {
    "group": "etl",
    "job": "job",
    "index": 0,
    "defined_at": 0,
    "worker": "w",
    "action": "stop",
    "workers": 1,
    "logger": "x",
    "entry_point": "jobs:Job",
    "dag_id": "dag_blue",
    "run_id": "r",
}
"""What any route may want to know, except for the connection."""


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
        yield make_page(StillTopics(), connections=CONNECTIONS)
    finally:
        Team.metadata.drop_all(settings.engine, tables=tables)


@pytest.mark.parametrize(("role", "teams"), [("OP", []), ("", ["blue"])])
def test_every_route_refuses_who_may_not_see_all_dags_of_a_team(page: Page, role: str, teams: list[str]) -> None:
    with page.browser(role, teams) as browser:
        answers = {route: browser.request(*route, headers=OURS).status_code for route in page.routes}
    assert answers == dict.fromkeys(page.routes, 403)
    assert not page.begun


@pytest.mark.parametrize("conn", ["kafka_red", "kafka_all"])
def test_every_route_about_a_group_refuses_who_belongs_to_another_team(page: Page, conn: str) -> None:
    with page.browser("OP", ["blue"]) as browser:
        asked = {
            (method, path): browser.request(
                method,
                path,
                params={**ANY, "conn": conn} if method == "GET" else None,
                json={**ANY, "conn": conn} if method == "POST" else None,
                headers=OURS,
            )
            for method, path in page.routes
        }
    about_groups = {route for route, answer in asked.items() if answer.status_code == 404 and conn in answer.text}
    about_none = {path for _, path in asked.keys() - about_groups}
    assert {path for path in about_none if "main.js" not in path} == {"/", "/api/find", "/api/groups"}
    assert (page.begun, page.cluster.looked) == ([], [])


def test_who_belongs_to_one_team_sees_and_steers_by_its_connections(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    retried: list[str] = []

    def retry(
        settings: KafkaSettings, group: str, job: str, indexes: Any = None, *, by: str, defined_at: int | None = None
    ) -> tuple[TaskId, ...]:
        retried.append(group)
        return (TaskId(job, 0),)

    monkeypatch.setattr(one_shot, "retry_failed", retry)
    with page.browser("OP", ["blue"]) as browser:
        assert browser.get("/api/jobs", params={**ANY, "conn": "kafka_blue"}).status_code == 200
        assert browser.post("/api/act/retry", json={**ANY, "conn": "kafka_blue"}, headers=OURS).status_code == 200
    assert retried == ["etl"]
    with page.browser("VIEWER", ["blue"]) as browser:
        assert browser.get("/api/jobs", params={**ANY, "conn": "kafka_blue"}).status_code == 200
        assert browser.post("/api/act/retry", json={**ANY, "conn": "kafka_blue"}, headers=OURS).status_code == 403


def test_nobody_is_answered_from_what_another_team_was_told(page: Page) -> None:
    for _ in range(2):
        tag = ""
        for teams, seen in (
            (["red"], ["kafka_red"]),
            (["blue"], ["kafka_blue"]),
            (["red", "blue"], ["kafka_all", "kafka_blue", "kafka_red"]),
        ):
            with page.browser("USER", teams) as browser:
                answer = browser.get("/api/groups", headers={"If-None-Match": tag})
            assert sorted(cluster["conn"] for cluster in answer.json()["clusters"]) == seen
            tag = answer.headers["ETag"]


def test_who_can_not_wait_gets_the_last_answer_to_their_own_teams(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*teams: str) -> list[str]:
        with page.browser("USER", teams) as browser:
            answer = browser.get("/api/groups")
        return [cluster["conn"] for cluster in answer.json().get("clusters", [])] if answer.status_code == 200 else []

    assert told("red") == ["kafka_red"]
    monkeypatch.setattr(turns, "MOST_IN_TURN", 0)
    page.app.state.world = replace(page.app.state.world, listing=turns.Turns())
    assert (told("red"), told("blue")) == (["kafka_red"], [])


def test_connections_are_those_of_airflow_with_their_teams(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def extra(host: str) -> str:
        return json.dumps({"bootstrap.servers": f"{host}:9092"})

    def in_environment(host: str) -> str:
        return json.dumps({"conn_type": "kafka", "extra": extra(host)})

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_ALL", in_environment("all"))
    monkeypatch.setenv("AIRFLOW_CONN__RED___KAFKA_ALL", in_environment("red"))
    monkeypatch.setenv("AIRFLOW_CONN__GREEN___KAFKA_ALL", in_environment("there is no such team"))
    Connection.metadata.create_all(settings.engine, tables=[Connection.__table__])
    try:
        with create_session() as session:
            session.add(Connection("kafka_blue", "kafka", extra=extra("blue"), team_name="blue"))
        servers = {
            name: known if isinstance(known, str) else known.bootstrap_servers
            for name, known in of_airflow().all().items()
        }
        monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__PAGE_CONNECTIONS", "kafka_blue,elsewhere")
        named = list(of_airflow().all())
    finally:
        Connection.metadata.drop_all(settings.engine, tables=[Connection.__table__])
    assert servers == {
        Named("kafka_all"): "all:9092",
        Named("kafka_all", "red"): "red:9092",
        Named("kafka_blue", "blue"): "blue:9092",
    }
    assert named == [Named("kafka_blue", "blue"), Named("elsewhere")]


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
