"""The page where Airflow has two teams: who belongs to one of them neither sees nor steers the other's groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

import pytest
from airflow import settings
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team, dag_bundle_team_association_table
from airflow.utils.session import create_session
from airflow_values import job, jobs_snapshot, status_snapshot, worker_status
from fastapi import HTTPException
from group_records import record_of
from page_bench import Page, StillCluster, StillTopics, StillWatches, make_page
from page_routes import ABOUT_NO_GROUP, NOBODYS, ask

from airflow_provider.hooks.shown_connections import Connections, Named, of_airflow
from airflow_provider.hooks.unstarted_workers import HeldTask, HeldTasks
from airflow_provider.integration import one_shot
from airflow_provider.integration.airflow_api.airflow_teams import team_of
from airflow_provider.integration.airflow_api.task_instance import TaskPage
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import Needs
from airflow_provider.state.operations.operations import OperationError
from airflow_provider.state.records import TaskState
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.access.rights import may_see_dag
from airflow_provider.ui.routes import finding
from airflow_provider.ui.shared_reading import waiting_limit
from airflow_provider.values.model import WorkerId

TEAMS = ("red", "blue")
ROUTES = make_page().routes
ABOUT_GROUPS = [route for route in ROUTES if route[1] not in ABOUT_NO_GROUP]
STRONGER = [route for route in ABOUT_GROUPS if route[0] != "GET" or route[1] in {"/api/declared", "/api/definition"}]
"""Those that need more than the right to see."""


def cluster_of(team: str) -> StillCluster:
    known = jobs_snapshot(job(run_key=f"secret of {team}"), tasks=1)
    return StillCluster(StillTopics(jobs=known, status=status_snapshot(known, "job", TaskState.RUNNING)))


@pytest.fixture
def clusters() -> dict[Named, StillCluster]:
    """Two teams have a connection of one id; a third team was deleted."""
    return {Named("kafka", team): cluster_of(team) for team in (*TEAMS, "gone")}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, clusters: dict[Named, StillCluster]) -> Iterator[Page]:
    """In an Airflow that has a DAG of each team."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")

    def rendered_fields(
        dag_id: str, run_id: str, task_id: str | None, map_index: int | None
    ) -> list[Mapping[str, Any]]:
        return [{"group": "etl", "kafka_conn_id": "kafka"}]

    monkeypatch.setattr(finding, "rendered_fields", rendered_fields)
    tables = [
        DagBundleModel.__table__,
        Team.__table__,
        dag_bundle_team_association_table,
        DagModel.__table__,
        Connection.__table__,
    ]
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
        yield make_page(StillTopics(), others=clusters)
    finally:
        Team.metadata.drop_all(settings.engine, tables=tables)


@pytest.fixture
def acted_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """By which connections something was done."""
    seen: list[str] = []

    def act(settings: KafkaSettings, group: str, needs: Needs, work: Callable[[Any], Any]) -> None:
        seen.append(settings.conn_id)
        raise OperationError("that is far enough")

    monkeypatch.setattr(one_shot, "act", act)
    return seen


def allow(monkeypatch: pytest.MonkeyPatch, allowed: Callable[[str, str | None], bool]) -> None:
    """Airflow's simple auth manager gives a user the same role in all teams; others need not.

    :param allowed: whether it may be done with the DAGs of a team
    """

    def is_authorized_dag(
        self: SimpleAuthManager,
        *,
        method: ResourceMethod,
        user: SimpleAuthManagerUser,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        return allowed(method, details.team_name if details else None)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)


@pytest.mark.parametrize(("role", "teams"), [("OP", []), ("OP", ["gone"]), ("", ["blue"])])
def test_every_route_refuses_who_may_not_see_all_dags_of_a_team(page: Page, role: str, teams: list[str]) -> None:
    with page.browser(role, teams) as browser:
        answers = {route: ask(browser, route, "kafka@gone").status_code for route in page.routes}
    assert answers == dict.fromkeys(page.routes, 403)
    assert not page.begun


@pytest.mark.parametrize("route", ABOUT_GROUPS, ids=lambda route: route[1])
def test_a_route_about_a_group_refuses_who_belongs_to_another_team(
    page: Page, clusters: dict[Named, StillCluster], acted_by: list[str], route: tuple[str, str]
) -> None:
    with page.browser("OP", ["red"]) as browser:
        before = ask(browser, route, "kafka@red")
    looked = list(clusters[Named("kafka", "red")].looked)
    acted_by.clear()
    noted = list(page.begun)
    known = {"If-None-Match": before.headers["ETag"]} if "ETag" in before.headers else {}
    with page.browser("OP", ["blue"]) as browser:
        for conn in ("kafka@red", *NOBODYS):
            answer = ask(browser, route, conn, **known)
            assert (answer.status_code, f"shows you no connection {conn!r}" in answer.text) == (404, True), answer.text
    assert clusters[Named("kafka", "red")].looked == looked
    assert (page.begun, acted_by, page.cluster.looked) == (noted, [], [])
    assert not clusters[Named("kafka", "gone")].looked


@pytest.mark.parametrize("route", [one for one in ROUTES if one not in ABOUT_GROUPS], ids=lambda route: route[1])
def test_no_other_route_looks_at_another_teams_groups(
    page: Page, clusters: dict[Named, StillCluster], route: tuple[str, str]
) -> None:
    with page.browser("OP", ["blue"]) as browser:
        answer = ask(browser, route, "kafka@red")
    assert (clusters[Named("kafka", "red")].looked, page.cluster.looked) == ([], [])
    assert "@red" not in answer.text


@pytest.mark.parametrize("route", ABOUT_GROUPS, ids=lambda route: route[1])
def test_a_route_about_a_group_is_for_those_of_its_team(
    page: Page, clusters: dict[Named, StillCluster], acted_by: list[str], route: tuple[str, str]
) -> None:
    with page.browser("OP", ["blue"]) as browser:
        answer = ask(browser, route, "kafka@blue")
    assert answer.status_code in {200, 409}, answer.text
    assert acted_by == ["kafka@blue"] or clusters[Named("kafka", "blue")].looked == ["etl"]
    assert not clusters[Named("kafka", "red")].looked


@pytest.mark.parametrize("route", STRONGER, ids=lambda route: route[1])
def test_who_may_only_see_one_team_acts_on_the_other_alone(
    page: Page, acted_by: list[str], monkeypatch: pytest.MonkeyPatch, route: tuple[str, str]
) -> None:
    allow(monkeypatch, lambda method, team: method == "GET" or team == "red")
    with page.browser("OP", TEAMS) as browser:
        assert ask(browser, route, "kafka@blue").status_code == 403
        assert ask(browser, route, "kafka_default").status_code == 403
        assert (page.begun, acted_by) == ([], [])
        assert ask(browser, route, "kafka@red").status_code in {200, 409}
    assert set(acted_by) <= {"kafka@red"}


@pytest.mark.parametrize("lacking", ["PUT", "POST"])
@pytest.mark.parametrize("path", ["/api/declared", "/api/definition", "/api/act/submit", "/api/act/alter"])
def test_whoever_submits_for_a_team_has_each_right_for_that_team(
    page: Page, acted_by: list[str], monkeypatch: pytest.MonkeyPatch, lacking: str, path: str
) -> None:
    allow(monkeypatch, lambda method, team: method != lacking or team == "red")
    with page.browser("OP", TEAMS) as browser:
        route = ("POST" if "/act/" in path else "GET", path)
        assert ask(browser, route, "kafka@blue").status_code == 403
        assert ask(browser, route, "kafka@red").status_code in {200, 409}
    assert set(acted_by) <= {"kafka@red"}


def test_a_team_made_anew_is_not_told_what_the_former_one_was(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is anybody who gets a connection of that name."""

    def ask_for_jobs() -> Any:
        with page.browser("USER", ["blue"]) as browser:
            return browser.get("/api/jobs", params={"conn": "kafka@blue", "group": "etl"})

    assert ask_for_jobs().status_code == 200
    its_own = KafkaSettings.from_extra({"bootstrap.servers": "elsewhere:9092"}, conn_id="kafka@blue")
    name, cluster = Named("kafka", "blue"), cluster_of("blue")
    page.app.state.world = replace(
        page.app.state.world,
        connections=Connections(lambda: [name], lambda _: its_own),
        watches=StillWatches({its_own: cluster}),
    )
    monkeypatch.setattr(waiting_limit, "MOST_IN_TURN", 0)
    cluster.groups["etl"]._turns = waiting_limit.Turns()
    assert ask_for_jobs().status_code == 503


@pytest.mark.parametrize("route", STRONGER, ids=lambda route: route[1])
def test_who_may_act_for_a_team_that_is_not_shown_does_not(
    page: Page, acted_by: list[str], monkeypatch: pytest.MonkeyPatch, route: tuple[str, str]
) -> None:
    allow(monkeypatch, lambda method, team: (method, team) != ("GET", "red"))
    with page.browser("OP", TEAMS) as browser:
        assert ask(browser, route, "kafka@red").status_code == 404
    assert not acted_by


def test_a_team_is_not_told_why_tasks_of_another_one_wait(page: Page, clusters: dict[Named, StillCluster]) -> None:
    """Whoever writes records can name any page of Airflow as that of a worker."""
    base_url = "http://airflow.example"
    urls = {WorkerId(f"w_{team}"): f"{base_url}/dags/dag_{team}/runs/r1/tasks/w" for team in TEAMS}
    wait = {
        name: replace(worker_status(name, 1), url=url, awaits=Awaited.PROCESS, condition=Awaited.PROCESS.in_words)
        for name, url in urls.items()
    }
    status = StatusSnapshot(group=record_of(dict.fromkeys(urls, frozenset())), workers=wait)
    for team in TEAMS:
        clusters[Named("kafka", team)].groups = StillCluster(StillTopics(status=status)).groups

    def look(pages: Set[TaskPage]) -> dict[TaskPage, HeldTask]:
        return {one: HeldTask(state="scheduled", paused=True, team=team_of(one.dag_id)) for one in pages}

    page.app.state.world = replace(page.app.state.world, base_url=lambda: base_url, held_up=HeldTasks(look))
    for team in TEAMS * 2:
        with page.browser("USER", TEAMS) as browser:
            answer = browser.get("/api/workers", params={"conn": f"kafka@{team}", "group": "etl"}).json()
        lines = {line["worker"]: line["words"] for line in answer["body"]["workers"]}
        assert {name for name, words in lines.items() if "its DAG is paused" in words} == {f"w_{team}"}


def told(page: Page, *teams: str, **headers: str) -> Any:
    with page.browser("USER", teams) as browser:
        return browser.get("/api/groups", headers=headers)


def names_in(answer: Any) -> list[str]:
    return [cluster["conn"] for cluster in answer.json()["clusters"]]


def test_nobody_is_answered_from_what_another_team_was_told(page: Page) -> None:
    for _ in range(2):
        tag = ""
        for teams, seen in (
            (["red"], ["kafka@red"]),
            (["blue"], ["kafka@blue"]),
            (["red", "blue"], ["kafka_default", "kafka@red", "kafka@blue"]),
        ):
            answer = told(page, *teams, **{"If-None-Match": tag})
            assert names_in(answer) == seen
            tag = answer.headers["ETag"]


def test_who_can_not_wait_gets_the_last_answer_to_their_own_teams(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_in(told(page, "red")) == ["kafka@red"]
    monkeypatch.setattr(waiting_limit, "MOST_IN_TURN", 0)
    page.app.state.world = replace(page.app.state.world, listing=waiting_limit.Turns())
    assert names_in(told(page, "red")) == ["kafka@red"]
    assert told(page, "blue").status_code == 503


def test_beside_a_dag_run_its_teams_connection_is_meant(page: Page) -> None:
    asked = {"dag_id": "dag_blue", "run_id": "r"}
    for teams, conn in ((["blue"], "kafka@blue"), (["red", "blue"], "kafka@blue")):
        with page.browser("USER", teams) as browser:
            assert [one["conn"] for one in browser.get("/api/find", params=asked).json()] == [conn]
    with page.browser("USER", ["red"]) as browser:
        assert browser.get("/api/find", params=asked).status_code == 403


def in_environment(host: str) -> str:
    return json.dumps({"conn_type": "kafka", "extra": extra(host)})


def extra(host: str) -> str:
    return json.dumps({"bootstrap.servers": f"{host}:9092"})


def servers() -> dict[str, str]:
    return {
        str(name): known if isinstance(known, str) else known.bootstrap_servers
        for name, known in of_airflow().all().items()
    }


@pytest.mark.usefixtures("page")
def test_connections_are_those_of_airflow_with_their_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_ALL", in_environment("all"))
    monkeypatch.setenv("AIRFLOW_CONN__RED___KAFKA_ALL", in_environment("red"))
    monkeypatch.setenv("AIRFLOW_CONN__BLUE___KAFKA_ALL", "kafka://host:not-a-port")
    monkeypatch.setenv("AIRFLOW_CONN__GONE___KAFKA_ALL", in_environment("there is no such team"))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_ALL@RED", in_environment("what has the name of another"))
    with create_session() as session:
        session.add(Connection("kafka_blue", "kafka", extra=extra("blue"), team_name="blue"))
    assert servers() == {
        "kafka_all": "all:9092",
        "kafka_all@red": "red:9092",
        "kafka_all@blue": "connection 'kafka_all@blue': its environment variable can't be read",
        "kafka_blue@blue": "blue:9092",
    }


@pytest.mark.usefixtures("page")
def test_a_teams_connection_is_never_another_one_of_that_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow itself gives a team's DAGs the connection without a team in its place."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", in_environment("all"))
    monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__PAGE_CONNECTIONS", "kafka,kafka@red,one@red,one@blue")
    with create_session() as session:
        session.add(Connection("one", "kafka", extra=extra("blue"), team_name="blue"))
    assert servers() == {
        "kafka": "all:9092",
        "kafka@red": "connection 'kafka@red': is not defined",
        "one@red": "connection 'one@red': is not defined",
        "one@blue": "blue:9092",
    }


@pytest.mark.parametrize(("role", "teams"), [("USER", list(TEAMS)), ("ADMIN", [])])
def test_who_belongs_to_all_teams_sees_and_acts(page: Page, role: str, teams: list[str]) -> None:
    with page.browser(role, teams) as browser:
        shown = browser.get("/")
        assert ask(browser, ("GET", "/api/jobs"), "kafka_default").status_code == 200
    assert (shown.status_code, 'data-steers="1"' in shown.text) == (200, True)


def test_a_dag_is_seen_by_its_own_team(page: Page) -> None:
    """Whatever the user may see besides."""
    user = SimpleAuthManagerUser(username="ann", role="VIEWER", teams=["blue"])
    with page.browser("VIEWER", ["blue"]):
        may_see_dag("dag_blue", user)
        with pytest.raises(HTTPException, match="you may not see the tasks of DAG 'dag_red'"):
            may_see_dag("dag_red", user)
