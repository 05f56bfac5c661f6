"""What another task has told tasks that are mapped over it is never a template; what the DAG's author wrote is one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.definitions.xcom_arg import PlainXComArg
from airflow.serialization import serialized_objects

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.operators import spark_job
from airflow_provider.operators.spark_job import SparkJobOperator

TOLD = {"job": "{{ secret }}", "config": {"a": ["{{ secret }}"]}}
PARTIAL: Any = {"task_id": "t", "group": "{{ group }}", "entry_point": "m:J"}


@task
def several() -> list[dict[str, Any]]:
    return [TOLD]


@task
def one() -> dict[str, Any]:
    return TOLD


@pytest.fixture(params=[True, False], ids=["native", "texts"])
def dag(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DAG:
    def resolve(arg: PlainXComArg, context: object) -> object:
        return {**TOLD} if arg.operator.task_id == "one" else [{**TOLD}]

    monkeypatch.setattr(PlainXComArg, "resolve", resolve)
    return DAG("d", schedule=None, render_template_as_native_obj=request.param)


def rendered(mapped: MappedOperator, dag: DAG, *, nth: int = 0) -> SparkJobOperator:
    ti = SimpleNamespace(map_index=nth)
    run = {"ti": ti, "dag": dag, "dag_run": SimpleNamespace(conf={}), "expanded_ti_count": 1}
    context: Any = {**run, "group": "g", "secret": "s"}
    mapped.render_template_fields(context)
    operator = context["task"]
    assert isinstance(operator, SparkJobOperator)
    assert operator.group == "g"
    return operator


def test_what_another_task_has_told_is_no_template(dag: DAG) -> None:
    with dag:
        mapped = SparkJobOperator.partial(**PARTIAL).expand_kwargs(several())
    operator = rendered(mapped, dag)
    assert (operator.job, operator.config) == (TOLD["job"], TOLD["config"])


def test_in_a_list_only_what_was_written_there_is_a_template(dag: DAG) -> None:
    with dag:
        mapped = SparkJobOperator.partial(**PARTIAL).expand_kwargs([TOLD, one()])
    assert rendered(mapped, dag).job == "s"
    assert rendered(mapped, dag, nth=1).job == TOLD["job"]


@pytest.mark.parametrize("expand", ["expand", "expand_kwargs"])
def test_an_entry_point_that_another_task_has_told_is_not_imported(
    dag: DAG, monkeypatch: pytest.MonkeyPatch, expand: str
) -> None:
    told: Any = "json:loads" if expand == "expand" else {"entry_point": "json:loads"}
    monkeypatch.setattr(PlainXComArg, "resolve", lambda _arg, _context: [told])
    parameters = {name: value for name, value in PARTIAL.items() if name != "entry_point"}
    with dag:
        partial = SparkJobOperator.partial(**parameters, job="job")
        mapped = partial.expand(entry_point=several()) if expand == "expand" else partial.expand_kwargs(several())
    assert imported_by(rendered(mapped, dag), monkeypatch) == []


@pytest.mark.parametrize("expand", ["expand", "expand_kwargs"])
def test_an_entry_point_that_the_author_wrote_beside_it_is_imported(
    dag: DAG, monkeypatch: pytest.MonkeyPatch, expand: str
) -> None:
    monkeypatch.setattr(PlainXComArg, "resolve", lambda _arg, _context: [{"job": "job"}])
    with dag:
        if expand == "expand":
            mapped = SparkJobOperator.partial(**PARTIAL, job="job").expand(config=several())
        else:
            mapped = SparkJobOperator.partial(**PARTIAL).expand_kwargs(several())
    assert imported_by(rendered(mapped, dag), monkeypatch) == ["m:J"]


def imported_by(operator: SparkJobOperator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What it imports before it submits the job."""
    imported: list[str] = []

    def check(_name: str, entry_point: str, _config: object) -> None:
        imported.append(entry_point)

    def submit(_hook: object, _group: str, _definition: object) -> NoReturn:
        raise AirflowFailException("far enough")

    monkeypatch.setattr(spark_job, "check_config_here", check)
    monkeypatch.setattr(SparkGroupHook, "submit_job", submit)
    with pytest.raises(AirflowFailException, match="far enough"):
        operator.execute({"ti": SimpleNamespace(dag_id="d", task_id="t"), "run_id": "r"})  # type: ignore[typeddict-item]
    return imported


def test_its_dag_can_be_stored(dag: DAG) -> None:
    known: Any = serialized_objects
    stored = getattr(known, "DagSerialization", None) or known.SerializedDAG
    with dag:
        SparkJobOperator.partial(**PARTIAL).expand_kwargs(several())
    assert '"type": "list-of-dicts"' in json.dumps(stored.to_dict(dag))
