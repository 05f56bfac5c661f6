"""The page of groups in an Airflow with teams, each of which has a bundle, a broker and a connection of its own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
import pytest
from airflow_group import LOOKS_ONCE
from page_routes import ABOUT_NO_GROUP, NOBODYS, Answer, Route, ask, routes_of
from waiting import DEADLINE_S, RUN_DEADLINE_S, wait_until

from airflow_provider.hooks.shown_connections import of_airflow
from airflow_provider.integration import one_shot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.ui.app import make_app
from airflow_provider.ui.world import World
from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApi
from demo.databases import SqliteDatabase

PAGE: Final = "/cospark"
GROUP: Final = "etl"
"""Both teams call theirs so."""
TEAMS: Final = ("red", "blue")
USERS: Final = {"rob": "op:red", "bea": "op:blue", "kim": "op:red|blue", "guest": "op"}
"""Their roles and teams, as the simple auth manager is told them."""
_DAG: Final = """\
from airflow.sdk import DAG

from airflow_provider.operators.spark_job import SparkJobOperator

with DAG("dag_{team}"):
    SparkJobOperator(
        task_id="submit",
        group="etl",
        kafka_conn_id="kafka",
        job="secret_of_{team}",
        entry_point="jobs:Nap",
        max_tasks=1,
    )
"""


class TeamsDatabase(SqliteDatabase):
    """One in which the teams are: a bundle can't be loaded before its team is there."""

    def make(self, migrate: Callable[[], None]) -> None:
        super().make(migrate)
        with closing(sqlite3.connect(self.file)) as database, database:
            database.executemany("INSERT INTO team (name) VALUES (?)", [(team,) for team in TEAMS])


@pytest.fixture(scope="module")
def brokers(broker: LocalBroker) -> Iterator[Mapping[str, LocalBroker]]:
    with LocalBroker(start_timeout_s=DEADLINE_S) as blue:
        yield {"red": broker, "blue": blue}


@pytest.fixture(scope="module")
def airflow(brokers: Mapping[str, LocalBroker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    home = tmp_path_factory.mktemp("teams")
    connections = {
        f"_{team}___kafka": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": its.bootstrap_servers}})
        for team, its in brokers.items()
    }
    airflow = LocalAirflow(
        home,
        dag_folders=[],
        connections=connections,
        database=TeamsDatabase(home / "airflow.db"),
        triggerers=0,
        timeout_s=RUN_DEADLINE_S,
        env={
            "AIRFLOW__CORE__MULTI_TEAM": "True",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                ["admin:admin", *(f"{user}:{role}" for user, role in USERS.items())]
            ),
            "AIRFLOW__COOPERATIVE_SPARK__PAGE_ACTIONS": "all",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle(home, team) for team in TEAMS]),
            **LOOKS_ONCE,
        },
    )
    with airflow:
        for team in TEAMS:
            airflow.api.wait_for_dag(f"dag_{team}")
        runs = {team: airflow.api.trigger(f"dag_{team}", run_id="r") for team in TEAMS}
        for team, run in runs.items():
            airflow.api.wait_for_run(f"dag_{team}", run)
        yield airflow


def bundle(home: Path, team: str) -> dict[str, object]:
    folder = home / f"dags_{team}"
    folder.mkdir()
    (folder / "submits.py").write_text(_DAG.format(team=team))
    return {
        "name": f"bundle_{team}",
        "team_name": team,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder), "refresh_interval": 3},
    }


@pytest.fixture
def browsers(airflow: LocalAirflow) -> Iterator[Mapping[str, httpx.Client]]:
    """That of each user. Airflow has made up their passwords."""
    passwords = json.loads((airflow.home / "passwords.json").read_text())
    made: dict[str, httpx.Client] = {}
    for user in USERS:
        with closing(AirflowApi(airflow.url, username=user, password=passwords[user])) as api:
            headers = {"Authorization": f"Bearer {api.token}"}
        made[user] = httpx.Client(base_url=airflow.url, headers=headers, timeout=DEADLINE_S, trust_env=False)
    yield made
    for browser in made.values():
        browser.close()


def jobs_of(broker: LocalBroker) -> JobsSnapshot:
    settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="kafka")
    return one_shot.read_group(settings, GROUP, timeout_s=DEADLINE_S).jobs


def told(browser: httpx.Client, route: Route, conn: str) -> Answer:
    """What the route says now: the page reads a group when it is first asked for it."""

    def whole() -> Answer | None:
        answer = ask(browser, route, conn, prefix=PAGE)
        return answer if "secret_of_" in answer.text else None

    return wait_until(whole, lambda: ask(browser, route, conn, prefix=PAGE).text)


@pytest.mark.thorough
def test_a_team_neither_sees_nor_steers_anothers_groups(
    browsers: Mapping[str, httpx.Client], brokers: Mapping[str, LocalBroker], airflow: LocalAirflow
) -> None:
    rob, bea, kim, guest = (browsers[user] for user in USERS)
    jobs = ("GET", "/api/jobs")
    routes = routes_of(make_app(World(connections=of_airflow())))
    about_groups = [route for route in routes if route[1] not in ABOUT_NO_GROUP]
    assert len(about_groups) > 20

    # Each team's task has used its team's connection, and the page shows each team its own.
    before = {team: jobs_of(its) for team, its in brokers.items()}
    assert {team: list(its.jobs) for team, its in before.items()} == {team: [f"secret_of_{team}"] for team in TEAMS}
    for browser, team in ((rob, "red"), (bea, "blue"), (kim, "red"), (kim, "blue")):
        assert f"secret_of_{team}" in told(browser, jobs, f"kafka@{team}").text

    # Blue is refused each route of red's group, and no other route tells of it.
    for route in about_groups:
        for conn in ("kafka@red", *NOBODYS):
            answer = ask(bea, route, conn, prefix=PAGE)
            assert (answer.status_code, "secret" in answer.text) == (404, False), (route, conn, answer.text)
            assert f"shows you no connection {conn!r}" in answer.text, (route, conn, answer.text)
    for route in set(routes) - set(about_groups):
        answer = ask(bea, route, "kafka@red", prefix=PAGE)
        assert "@red" not in answer.text, (route, answer.text)
        assert "secret_of_red" not in answer.text, (route, answer.text)
    for user, names in ((rob, ["kafka@red"]), (bea, ["kafka@blue"]), (kim, ["kafka@blue", "kafka@red"])):
        listed = user.get(f"{PAGE}/api/groups").json()["clusters"]
        assert sorted(cluster["conn"] for cluster in listed) == names
    found = {team: bea.get(f"{PAGE}/api/find", params={"dag_id": f"dag_{team}", "run_id": "r"}) for team in TEAMS}
    assert {team: answer.status_code for team, answer in found.items()} == {"red": 403, "blue": 200}
    assert [one["conn"] for one in found["blue"].json()] == ["kafka@blue"]

    # Without a team nobody sees any, and nothing of all this has changed red's group.
    assert {ask(guest, route, "kafka@red", prefix=PAGE).status_code for route in routes} == {403}
    assert jobs_of(brokers["red"]) == before["red"]

    # What blue is refused, red may do; and kim, who belongs to both, does it to the team that she names.
    stop = {"group": GROUP, "job": "secret_of_red", "defined_at": before["red"].defined_at["secret_of_red"]}
    acting = {"X-Cospark-Act": "1", "Sec-Fetch-Site": "same-origin"}
    assert rob.post(f"{PAGE}/api/act/pause", json={**stop, "conn": "kafka@red"}, headers=acting).status_code == 200
    paused = jobs_of(brokers["red"])
    assert paused.is_paused("secret_of_red")
    again = {**stop, "job": "secret_of_blue", "conn": "kafka@red"}
    assert kim.post(f"{PAGE}/api/act/pause", json=again, headers=acting).status_code == 409
    assert jobs_of(brokers["red"]) == paused
    assert jobs_of(brokers["blue"]) == before["blue"]
