"""What a real Airflow reports to OpenLineage about a worker and its Spark tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow_group import Group

from airflow_provider.servers.local_broker import LocalBroker
from demo.airflow import LocalAirflow

pytest.importorskip("airflow.providers.openlineage", reason="it goes with newer versions of Airflow")
pytestmark = pytest.mark.thorough  # an Airflow of its own: OpenLineage makes each task a second longer

DAGS = Path(__file__).parent / "lineage_dags"


def datasets(event: dict[str, Any], which: str) -> list[str]:
    return [f"{one['namespace']}/{one['name']}" for one in event[which]]


def test_each_spark_task_is_a_run_under_the_run_of_its_airflow_task(
    start_airflow: Callable[..., LocalAirflow], broker: LocalBroker, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    airflow = start_airflow(
        [DAGS],
        connections={
            "broker": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}})
        },
        env={
            "PYTHONPATH": os.pathsep.join(map(str, (DAGS, DAGS.parents[2]))),
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(file), "append": True}),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "prod",
        },
    )
    group = Group(airflow, broker.bootstrap_servers)
    run = group.start("lineage")
    airflow.api.wait_for_run("lineage", run)

    events = [json.loads(line) for line in file.read_text().splitlines()]
    (worker,) = (
        event for event in events if event["job"]["name"] == "lineage.worker" and event["eventType"] == "COMPLETE"
    )
    assert (datasets(worker, "inputs"), datasets(worker, "outputs")) == (["s3://raw/orders"], ["s3://clean/orders"])
    told = {}
    for table in ("orders", "items"):
        mine = [event for event in events if event["job"]["name"] == f"{group.name}.clean.{table}"]
        assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in mine} == {worker["run"]["runId"]}
        assert {event["run"]["facets"]["parent"]["root"]["job"]["name"] for event in mine} == {"lineage"}
        assert all(datasets(event, "inputs") == [f"s3://raw/{table}"] for event in mine[1:])
        told[table] = [event["eventType"] for event in mine]
    assert told == {"orders": ["START", "RUNNING", "COMPLETE"], "items": ["START", "RUNNING", "FAIL"]}
