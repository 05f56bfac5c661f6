"""Whatever job code says, Airflow goes on: on each database that Airflow is used with.

Thorough: an Airflow of its own for each database, and thousands of Spark tasks.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow_group import Group
from job_values import BAD, said_by
from metadata import stored
from postgresql import chosen_database, needs_postgresql
from sqlalchemy import select
from test_scheduling import bookmark
from waiting import DEADLINE_S, SLOWNESS, TOLD_BY

from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.integration.one_shot import submit_job
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import ControlAction, JobDefinition
from airflow_provider.values.model import WorkerId
from demo.airflow import LocalAirflow

TEXTS: Final = 2_000
ASSETS: Final = 50
DAGS: Final = Path(__file__).parent / "text_dags"
ERRORS: Final = re.compile(
    r"sqlalchemy\.exc|psycopg2\.|asyncpg\.exceptions|sqlite3\.\w*Error|UnicodeEncodeError|cannot be converted to text"
    r"|^\S+ \S+ \S+ \[\d+\] (ERROR|FATAL|PANIC)",
    re.MULTILINE,
)
"""In the logs of Airflow's components, or in PostgreSQL's own."""

pytestmark = pytest.mark.thorough


@pytest.fixture
def name() -> str:
    """Of a group for each database."""
    return f"texts-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def airflow(request: pytest.FixtureRequest, broker: LocalBroker, name: str, tmp_path: Path) -> Iterator[LocalAirflow]:
    home = tmp_path / "airflow"
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    with (
        chosen_database(home, request.param) as database,
        LocalAirflow(
            home,
            dag_folders=[DAGS],
            connections={"broker": json.dumps(connection)},
            database=database,
            timeout_s=DEADLINE_S,
            env={
                "PYTHONPATH": os.pathsep.join(map(str, (DAGS, DAGS.parents[1], DAGS.parents[2]))),
                TOLD_BY: str(SLOWNESS),
                "COSPARK_TEXTS_GROUP": name,
            },
        ) as started,
    ):
        yield started


def test_all_that_job_code_says_is_stored_and_nothing_ends(
    airflow: LocalAirflow, broker: LocalBroker, name: str
) -> None:
    settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="test")
    group, api = Group(airflow, broker.bootstrap_servers, name=name), airflow.api
    before = database_errors(airflow)
    assert all("cli_migratedb" in error or '"log"' in error for error in before), "an empty database has no log"
    components = {name: process.pid for name, process in airflow.processes.items()}
    run = group.start("texts")
    for waiting in ("says", "writes", "worker"):
        group.deferred("texts", run, waiting)
    api.wait_for_dag("hears")
    api.unpause("hears")
    api.look_at_file("hears")
    api.wait_until(lambda: bookmark(settings, name, "failures"), what=lambda: "the watcher has not begun")

    for job, tasks in {"says": TEXTS, "writes": ASSETS}.items():
        entry_point = f"text_jobs:{job.capitalize()}"
        submit_job(settings, name, JobDefinition(name=job, entry_point=entry_point, max_tasks=tasks, retries=0))
    said = api.wait_for_task("texts", run, "says", states=("failed",))
    wrote = api.wait_for_task("texts", run, "writes")
    read = api.wait_for_task("texts", run, "reads")
    group.deferred("texts", run, "worker")
    group.ask(WorkerId("speaker"), ControlAction.STOP)
    worker = api.wait_for_task("texts", run, "worker")

    report: dict[str, Any] = api.xcom(said)
    failed = TEXTS - len(report["results"])
    assert report["counts"] == {"finished": TEXTS - failed, "failed": failed}
    check_report(report)
    assert len(api.xcom(wrote)["results"]) == ASSETS
    assert api.xcom(read) == len(report["results"]) + ASSETS
    assert len(api.xcom(worker)["failed"]) == failed
    api.wait_until(
        lambda: len(failures_told(airflow)) == failed,
        what=lambda: f"{len(failures_told(airflow))} of {failed} failures were told",
    )
    assert len(assets_written(airflow)) == ASSETS

    assert {name: process.pid for name, process in airflow.processes.items()} == components
    assert api.health()["triggerer"] == "healthy"
    assert database_errors(airflow) == before


def check_report(report: dict[str, Any]) -> None:
    """Each text is there as the door lets it in."""
    for seed in map(str, range(TEXTS)):
        value, error = said_by(int(seed))
        if seed in report["results"]:
            assert error is None
            assert report["results"][seed] == storable(value)
    assert "x\\u0000y" in report["errors"]["says:0"]["message"]
    assert report["results"]["1"] == storable(BAD[:3])


def failures_told(airflow: LocalAirflow) -> set[int]:
    """The tasks whose failure a watcher has told, in any of its events."""
    extras = stored(airflow, select(AssetEvent.extra))
    return {event["task"] for extra in extras for event in extra.get("payload", {}).get("events", ())}


def assets_written(airflow: LocalAirflow) -> list[str]:
    """Airflow's API hides assets that no DAG has."""
    return [name for name in stored(airflow, select(AssetModel.name)) if name.startswith("x\\u0000y ")]


def database_errors(airflow: LocalAirflow) -> list[str]:
    return [
        f"{log.name}: {line}"
        for log in (airflow.home / "logs").rglob("*.log")
        for line in log.read_text(errors="replace").splitlines()
        if ERRORS.search(line)
    ]
