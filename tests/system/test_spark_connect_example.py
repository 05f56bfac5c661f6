"""The example DAGs with Spark Connect run unchanged, with a real server that requires a token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_example_dags import run

from airflow_provider.spark.connect.server import ConnectSettings
from demo.airflow import LocalAirflow

pytestmark = pytest.mark.side_by_side


@pytest.mark.thorough
def test_a_batch_on_a_spark_connect_server_never_shows_the_token(
    airflow: LocalAirflow, server: ConnectSettings, example_folder: Path
) -> None:
    tasks = run(airflow, "example_spark_connect")
    report = airflow.api.xcom(tasks["counted"][0])
    assert report["state"] == "finished"
    assert sum(result["rows"] for result in report["results"].values()) == 1_000_000
    assert all((example_folder / "connect" / f"part={part}" / "_SUCCESS").exists() for part in range(4))

    logs = [airflow.api.log(worker) for worker in tasks["worker"]]
    address = f"Spark Connect server {server.server} runs Spark"
    assert any(address in log for log in logs)
    summaries = [airflow.api.xcom(worker) for worker in tasks["worker"]]
    assert sorted(index for summary in summaries for _, index in summary["finished"]) == list(range(4))
    is_shown_nowhere(airflow, server.token, report, summaries)


@pytest.mark.shows("a worker has only streams on a Spark Connect server")
def test_streams_go_on_while_their_worker_is_deferred(airflow: LocalAirflow, server: ConnectSettings) -> None:
    tasks = run(airflow, "example_spark_connect_streams")
    (worker,) = tasks["worker"]
    batches = airflow.api.xcom(tasks["all_go_on_while_their_worker_is_deferred"][0])
    assert len(batches) == 3
    summary = airflow.api.xcom(worker)
    assert summary["ended"] == "left"
    assert summary["deferrals"] == 1, "its process was needed once, to start them"
    log = airflow.api.log(worker)
    assert all(f"Task ticks:{index} is running" in log for index in range(3))
    assert "nothing that needs this process: the triggerer takes over its membership" in log
    is_shown_nowhere(airflow, server.token, batches, summary)


def is_shown_nowhere(airflow: LocalAirflow, secret: str, *values: object) -> None:
    """Neither in these values nor in any log."""
    assert secret not in json.dumps(values)
    files = list(airflow.home.rglob("*.log"))
    assert files
    assert [file for file in files if secret.encode() in file.read_bytes()] == []
