"""OpenLineage of Spark tasks, by Airflow's own provider for it, which writes its events into a file."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from operator_bench import worker_operator
from waiting import DEADLINE_S, eventually

from airflow_provider.integration.lineage_events import lineage
from airflow_provider.integration.lineage_events.lineage import UNTOLD, facets_of, lineage_teller, with_lineage
from airflow_provider.spark.lineage import Dataset, Lineage
from airflow_provider.spark.runner import (
    LineageNamed,
    RunnerEvent,
    SparkAbsent,
    SparkLost,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.values.model import Epoch, TaskId

installed = pytest.mark.skipif(not lineage._is_installed(), reason="it goes with newer versions of Airflow")

RAW, CLEAN = Dataset("s3://lake", "raw/orders"), Dataset("s3://lake", "clean/orders")
NAMED = Lineage(inputs=[RAW], outputs=[CLEAN])
TRANSPORT = "AIRFLOW__OPENLINEAGE__TRANSPORT"


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Switches OpenLineage on; gives what it has been told."""
    file = tmp_path / "events.jsonl"
    said = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv(TRANSPORT, json.dumps(said))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "prod")
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def context(**task: Any) -> Any:
    run = SimpleNamespace(
        logical_date=datetime(2026, 1, 1, tzinfo=timezone.utc), run_after=None, conf={}, clear_number=0, run_id="r1"
    )
    operator = SimpleNamespace(task_id="worker_1", dag_id="etl", task_type="SparkWorkerOperator", params={}, **task)
    ti = SimpleNamespace(
        dag_id="etl", task_id="worker_1", run_id="r1", try_number=2, map_index=-1, task=operator, dag_run=run
    )
    ti.get_template_context = lambda: {"dag_run": run, "ti": ti, "task": operator}
    return {"ti": ti, "dag_run": run, "task": operator}


def order(index: int = 0, **more: Any) -> TaskOrder:
    return TaskOrder(task=TaskId("clean", index), entry_point="m:f", epoch=Epoch(1), bounded=True, **more)


async def told(*heard: RunnerEvent) -> Any:
    teller = lineage_teller(context(), "nightly")
    for event in heard:
        teller.hear(event)
    await teller.close()
    return teller


@installed
async def test_a_task_is_a_run_whose_parent_is_the_run_of_its_workers_airflow_task(events: Any) -> None:
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter

    teller = await told(
        TaskStarted(order=order(name="orders")),
        LineageNamed(order=order(name="orders"), lineage=NAMED),
        TaskFinished(order=order(name="orders"), result=1),
    )
    start, named, complete = events()
    assert [event["eventType"] for event in (start, named, complete)] == ["START", "RUNNING", "COMPLETE"]
    assert start["run"]["runId"] == named["run"]["runId"] == complete["run"]["runId"]
    assert start["inputs"] == start["outputs"] == [], "nobody has asked the job yet"
    when = datetime(2026, 1, 1, tzinfo=timezone.utc)
    mine = OpenLineageAdapter.build_task_instance_run_id(
        dag_id="etl", task_id="worker_1", try_number=2, logical_date=when, map_index=-1
    )
    whole = OpenLineageAdapter.build_dag_run_id(dag_id="etl", logical_date=when, clear_number=0)
    for event in (named, complete):
        parent = event["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == mine
        assert (parent["job"]["namespace"], parent["job"]["name"]) == ("prod", "etl.worker_1")
        assert (parent["root"]["run"]["runId"], parent["root"]["job"]["name"]) == (whole, "etl")
        assert (event["job"]["namespace"], event["job"]["name"]) == ("prod", "nightly.clean.orders")
        assert event["job"]["facets"]["jobType"]["processingType"] == "BATCH"
        assert [(one["namespace"], one["name"]) for one in event["inputs"]] == [("s3://lake", "raw/orders")]
        assert [(one["namespace"], one["name"]) for one in event["outputs"]] == [("s3://lake", "clean/orders")]
    assert teller.named == NAMED


@installed
async def test_each_attempt_is_a_run_of_its_own_and_says_how_it_ended(events: Any) -> None:
    first, again, lost, moved = order(), order(attempt=2), order(1), order(2, name="a:b")
    teller = await told(
        TaskStarted(order=first),
        LineageNamed(order=first, lineage=NAMED),
        TaskFailed(order=first, error="ValueError: bad row", traceback="in line 7", retryable=True),
        TaskStarted(order=again),
        TaskStarted(order=lost),
        SparkLost(order=lost, spark=1, error="its JVM's exit code is -9"),
        TaskStarted(order=moved),
        TaskStopped(order=moved, reason="moved"),
        TaskFinished(order=again, result=None),
    )
    ends = {event["run"]["runId"]: event for event in events() if event["eventType"] not in ("START", "RUNNING")}
    assert [event["eventType"] for event in ends.values()] == ["FAIL", "FAIL", "ABORT", "COMPLETE"]
    assert len(events()) == 9
    failed, _, _, completed = ends.values()
    assert failed["job"]["name"] == completed["job"]["name"] == "nightly.clean.0"
    error = failed["run"]["facets"]["errorMessage"]
    assert (error["message"], error["stackTrace"]) == ("ValueError: bad row", "in line 7")
    assert teller.named == Lineage(), "what has failed may have written nothing"


@installed
async def test_what_never_began_and_planners_are_no_runs(events: Any) -> None:
    planner = TaskOrder(task=TaskId("clean", -1), entry_point="m:f", epoch=Epoch(1))
    await told(
        TaskStarted(order=planner),
        TaskFinished(order=planner, result=[]),
        SparkAbsent(order=order(), error="no master"),
        TaskStopped(order=order(), reason="revoked"),
    )
    assert events() == []


@installed
async def test_a_stream_is_a_streaming_job(events: Any) -> None:
    stream = TaskOrder(task=TaskId("ingest", 0), entry_point="m:f", epoch=Epoch(1))
    await told(TaskStarted(order=stream))
    assert events()[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


@installed
async def test_a_client_that_fails_ends_nothing(
    events: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from openlineage.client import OpenLineageClient

    def refuse(_client: Any, _event: Any) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(OpenLineageClient, "emit", refuse)
    caplog.set_level(logging.WARNING)
    await told(TaskStarted(order=order()), TaskFinished(order=order(), result=None))
    assert "no route to host" in caplog.text


@installed
async def test_nobody_waits_long_for_a_client_that_hangs(events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from openlineage.client import OpenLineageClient

    may_go_on, sent = threading.Event(), list[Any]()

    def hang(_client: Any, event: Any) -> None:
        may_go_on.wait(DEADLINE_S)
        sent.append(event)

    monkeypatch.setattr(OpenLineageClient, "emit", hang)
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT", "0")
    await told(TaskStarted(order=order()), TaskFinished(order=order(), result=None))
    assert sent == []
    may_go_on.set()
    await eventually(lambda: len(sent) == 2)


@installed
@pytest.mark.usefixtures("events")
@pytest.mark.parametrize(
    "setting",
    [
        ("AIRFLOW__OPENLINEAGE__DISABLED", "True"),
        ("AIRFLOW__OPENLINEAGE__EMISSION_POLICY", '[{"scope": {"dag_id": "etl"}, "controls": {"emit": false}}]'),
        (TRANSPORT, "{}"),
    ],
    ids=["disabled", "not for this DAG", "no transport"],
)
def test_where_airflow_tells_nothing_of_the_worker_nothing_is_told_of_its_tasks(
    setting: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*setting)
    assert lineage_teller(context(), "nightly") is UNTOLD


@installed
def test_a_transport_that_is_none_is_named_and_the_worker_does_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(TRANSPORT, '{"type": "pigeon"}')
    assert lineage_teller(context(), "nightly") is UNTOLD
    assert "No OpenLineage events of Spark tasks" in caplog.text


@installed
@pytest.mark.usefixtures("events")
def test_an_older_provider_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "airflow_provider.integration.lineage_events.openlineage_runs", None)
    assert lineage_teller(context(), "nightly") is UNTOLD
    assert "install apache-airflow-providers-openlineage 2.19.0 or newer" in caplog.text


@installed
def test_the_workers_own_run_has_what_its_tasks_have_read_and_written() -> None:
    assert worker_operator().get_openlineage_facets_on_complete(None).inputs == []
    facets = facets_of(NAMED)
    assert [(one.namespace, one.name) for one in facets.inputs] == [("s3://lake", "raw/orders")]
    assert [(one.namespace, one.name) for one in facets.outputs] == [("s3://lake", "clean/orders")]


@installed
def test_sparks_own_listener_is_told_its_parent_as_airflows_operators_do_it(
    events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"spark.app.name": "mine"}
    assert with_lineage(given, context()) == given
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    conf = with_lineage(given, context())
    assert conf["spark.app.name"] == "mine"
    assert conf["spark.openlineage.parentJobNamespace"] == "prod"
    assert conf["spark.openlineage.parentJobName"] == "etl.worker_1"
    own = {"spark.openlineage.parentRunId": "given"}
    assert with_lineage(own, context()) == own


def test_where_the_provider_is_not_installed_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "find_spec", lambda _name: None)
    monkeypatch.setenv(TRANSPORT, '{"type": "console"}')
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    assert lineage_teller(context(), "nightly") is UNTOLD
    assert with_lineage({"a": "b"}, context()) == {"a": "b"}


@pytest.mark.parametrize(("namespace", "name"), [("", "orders"), ("s3://lake", ""), ("s3://lake", None)])
def test_a_dataset_without_a_name_is_refused(namespace: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="must be a text that is not empty"):
        Dataset(namespace, name)


def test_a_lineage_names_datasets() -> None:
    with pytest.raises(TypeError, match="inputs must be datasets, not 's3://lake/raw'"):
        Lineage(inputs=["s3://lake/raw"])  # type: ignore[list-item]  # what this is about
