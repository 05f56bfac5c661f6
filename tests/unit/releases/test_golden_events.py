"""What triggers of an earlier release have fired with: Airflow keeps it until a task has a slot or a DAG run begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow_values import context
from operator_bench import job_operator, worker_operator

from airflow_provider.integration.airflow_api.airflow_names import AirflowException, AirflowFailException
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.integration.told_once import told_once
from airflow_provider.operators.spark_coordinator import SparkCoordinatorOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.operators.task_process.tries import Tries
from airflow_provider.sensors.job import JobSensor


def fired(trigger: str) -> list[dict[str, Any]]:
    documents = json.loads((Path(__file__).parent / "golden" / "events-0.1.3.json").read_text())
    return [document["written"] for document in documents if document["type"] == trigger]


def test_who_has_waited_for_a_job_goes_on_with_its_report_and_its_assets() -> None:
    finished, failed = fired("GroupTrigger")
    sensor = JobSensor(task_id="t", group="etl", job="flights", run_key="r1", outlets=[AssetAlias("lake")])
    operator = job_operator(group="etl", outlets=[AssetAlias("lake")])
    for waits in (sensor, operator):
        values: Any = {**context(), "outlet_events": OutletEventAccessors()}
        report = waits.execute_complete(values, finished)
        assert report["results"] == {"0": {"rows": 7}}
        assert waits.group_link == "http://airflow.example/w2"
        (told,) = values["outlet_events"][AssetAlias("lake")].asset_alias_events
        assert (told.dest_asset_key.uri, told.extra["rows"]) == ("s3://lake/flights", 7)
    assert report["changed"] is True, "of the operator"
    with pytest.raises(AirflowFailException, match="flights:0: boom"):
        sensor.execute_complete(context(), failed)
    with pytest.raises(AirflowException, match="flights:0: boom"):
        operator.execute_complete(context(), failed)


def test_a_worker_goes_on_with_its_membership_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_over, drained = fired("WorkerTrigger")
    seen: list[tuple[WorkerStory, Mapping[str, Any] | None]] = []

    def work(
        _operator: SparkWorkerOperator,
        context: Any,
        spec: WorkerSpec,
        story: WorkerStory,
        tries: Tries,
        saved: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        seen.append((story, saved))
        return {}

    monkeypatch.setattr(SparkWorkerOperator, "_work", work)
    worker_operator().resume(context(), handed_over)
    story = WorkerStory(began_ms=1_699_999_991_000, deferrals=2, first_epoch=3, last_epoch=7, stopped=4)
    assert seen == [(story, handed_over["saved"])]
    summary = worker_operator().resume(context(), drained)
    assert summary is not None
    assert summary["finished"] == [["flights", 0]]


def test_a_coordinator_ends_with_what_people_must_do() -> None:
    (event,) = fired("CoordinatorTrigger")
    with pytest.raises(AirflowException, match="no declarative groups are coordinated: may not write"):
        SparkCoordinatorOperator(task_id="c").resume(context(), event)


def test_a_dag_run_is_told_what_it_was_started_for() -> None:
    (payload,) = fired("GroupEventTrigger")
    stored = SimpleNamespace(timestamp=datetime.now(timezone.utc), extra={"payload": payload})
    by_asset: Any = {"counted": [stored]}
    (event,) = told_once(by_asset)
    assert (event["event"], event["job"], event["run_key"], event["tasks"]) == ("job_finished", "flights", "r1", 1)
