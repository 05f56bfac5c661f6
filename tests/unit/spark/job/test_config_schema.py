"""What a job declares of its config: each way to declare it refuses the same mistakes, and says which field."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from airflow_provider.spark.job import JobContext, SparkJob, TaskContext, spark_job
from airflow_provider.spark.job.config_schema import (
    ConfigError,
    SchemaError,
    check_config,
    check_config_here,
    config_schema_to_publish,
    json_schema_of,
)
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.state.records.jobs_topic.plans import LARGEST_SCHEMA

SCHEMA = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "source": {"type": "object", "properties": {"port": {"type": "integer"}}},
    },
    "required": ["table"],
    "additionalProperties": False,
}


@dataclass
class Source:
    port: int = 0


@dataclass
class Fields:
    table: str
    limit: int = 1
    source: Source | None = None


class SourceModel(BaseModel):
    port: int = 0


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    table: str
    limit: int = 1
    source: SourceModel | None = None


def job(declared: Any) -> SparkJob:
    @spark_job(config_schema=declared)
    def run(_spark: object, _task: TaskContext) -> None: ...

    return run


EACH = pytest.mark.parametrize("declared", [SCHEMA, Fields, Model], ids=["JSON schema", "dataclass", "pydantic"])


@EACH
def test_a_config_as_declared_is_taken(declared: Any) -> None:
    check_config("etl", job(declared), {"table": "orders", "limit": 3, "source": {"port": 1}})


@EACH
@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "table"),
        ({"table": "orders", "limit": "secret"}, "limit"),
        ({"table": "orders", "source": {"port": "secret"}}, "source.port"),
        ({"table": "orders", "tabel": "secret"}, "tabel"),
    ],
    ids=["missing", "of another type", "nested", "mistyped"],
)
def test_what_is_wrong_is_said_by_field_and_no_value_is_repeated(
    declared: Any, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match="the config of job 'etl' is not as the job declares it: ") as refused:
        check_config("etl", job(declared), config)
    (problem,) = refused.value.problems
    assert named in str(problem)
    assert "secret" not in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@EACH
def test_a_form_can_be_made_of_it(declared: Any) -> None:
    assert "table" in str(json_schema_of(job(declared)))


def test_a_job_that_declares_nothing_takes_anything() -> None:
    check_config("etl", job(None), {"anything": 1})
    assert json_schema_of(job(None)) is None


@EACH
def test_what_is_published_is_what_forms_are_made_of(declared: Any) -> None:
    assert config_schema_to_publish(job(declared)) == json_schema_of(job(declared))


@pytest.mark.parametrize(
    "declared", [7, {"default": object()}, {"description": "x" * LARGEST_SCHEMA}], ids=["none", "no JSON", "long"]
)
def test_what_no_record_takes_is_not_published_and_the_log_says_why(
    declared: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert config_schema_to_publish(job(declared)) is None
    assert "There is no form for the config of" in caplog.text


def test_the_log_says_without_secrets_why_it_is_not_published(caplog: pytest.LogCaptureFixture) -> None:
    class AsksForIt(BaseModel):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            raise ConnectionError("GET https://schemas/?token=tok3n")

    assert config_schema_to_publish(job(AsksForIt), lambda text: text.replace("tok3n", "***")) is None
    assert "ConnectionError: GET https://schemas/?token=***" in caplog.text


def test_that_a_job_declares_nothing_is_published_too() -> None:
    assert config_schema_to_publish(job(None)) == {}


@pytest.mark.parametrize("declared", [7, int, {"type": "no such type"}])
def test_what_nobody_could_check_by_is_a_fault_of_the_job(declared: Any) -> None:
    with pytest.raises(SchemaError, match="config_schema"):
        check_config("etl", job(declared), {})


@dataclass
class Exits:
    def __post_init__(self) -> None:
        raise SystemExit(0)


class Fails(SparkJob):
    @property
    def config_schema(self) -> object:  # type: ignore[override]
        raise RuntimeError("no catalog")


@pytest.mark.parametrize(("of", "error"), [(job(Exits), "SystemExit: 0"), (Fails(), "RuntimeError: no catalog")])
def test_a_declaration_whose_code_fails_is_named(of: SparkJob, error: str) -> None:
    with pytest.raises(SchemaError, match=rf"config_schema can't be used: its code failed with {error}"):
        check_config("etl", of, {})


def test_who_plans_it_refuses_it_too() -> None:
    with pytest.raises(PlanError, match=r"the plan of job 'etl' can't be made: .* 'table' is a required property"):
        make_plan(job(SCHEMA), JobContext(name="etl", config={}, max_tasks=1))


class Declared(SparkJob):
    config_schema = SCHEMA


def test_who_submits_it_refuses_it_where_the_job_is_there() -> None:
    with pytest.raises(ConfigError, match="'table' is a required property"):
        check_config_here("etl", f"{__name__}:Declared", {})
    assert check_config_here("etl", f"{__name__}:Declared", {"table": "orders"}) is None
    unchecked = check_config_here("etl", "nowhere_to_be_found:Job", {})
    assert unchecked is not None
    assert "there is no module nowhere_to_be_found" in unchecked


def test_a_value_that_is_none_of_a_choice_is_not_repeated() -> None:
    @dataclass
    class Chosen:
        mode: Literal["fast", "slow"] = "fast"

    with pytest.raises(ConfigError) as refused:
        check_config("load", job(Chosen), {"mode": "secret"})
    assert refused.value.problems == (("mode", "is none of the values that it can have"),)


def test_each_wrong_field_of_a_dataclass_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        check_config("etl", job(Fields), {"tabel": "orders", "limit": "many", "source": {"port": "none"}})
    assert [problem.field for problem in refused.value.problems] == ["tabel", "table", "limit", "source.port"]
