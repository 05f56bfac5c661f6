"""The job that copies Kafka topics into tables: which configs it refuses, and what it plans."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider.jobs.kafka_to_table import KafkaToTable
from airflow_provider.spark.attempts.failures import is_retryable
from airflow_provider.spark.job import JobContext, TaskContext
from airflow_provider.spark.job.config_schema import ConfigError, check_config, json_schema_of
from airflow_provider.spark.job.loading import load_job
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.ui.views.config_form import FieldKind, form_fields

CONFIG = {"bootstrap_servers": "broker:9092", "format": "delta", "table": "lake.raw.{topic}"}


def planned(**config: object) -> list[dict[str, Any]]:
    whole = {**CONFIG, **config}
    check_config("ingest", KafkaToTable(), whole)
    context = JobContext(name="ingest", config=whole, max_tasks=1)
    return make_plan(load_job("airflow_provider.jobs.kafka_to_table:KafkaToTable", ["airflow_provider.jobs"]), context)


def test_the_page_has_a_form_for_its_config() -> None:
    fields = form_fields(json_schema_of(KafkaToTable()) or {})
    assert [field.name for field in fields if field.required] == ["bootstrap_servers", "table", "format"]
    assert {field.name: field.kind for field in fields}["format"] is FieldKind.CHOICE
    assert all(field.about for field in fields)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"table": "lake.raw.orders"}, "table"),
        ({"format": "hudi"}, "format"),
        ({"value": "avro"}, "value"),
        ({"dead_letters": "lake.dead"}, "dead_letters"),
        ({"topic": "orders"}, "topic"),
    ],
)
def test_a_config_with_a_mistake_is_refused_with_the_name_of_the_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        check_config("ingest", KafkaToTable(), {**CONFIG, "topics": ["orders"], **config})


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"topics": []}, "neither topics nor a pattern"),
        ({"table": "t (x INT) USING parquet LOCATION 'x' -- {topic}"}, r"table: \"t .* is no table's name"),
        ({"table": "lake.`{topic}"}, "table: .* is no table's name"),
        ({"table": "lake.`${env:HOME}`.{topic}"}, "table: .* is no table's name"),
        ({"fields": "id LONG", "dead_letters": "dead {topic}"}, "dead_letters: 'dead topic' is no table's name"),
        ({"format": "iceberg", "table": "/lake/{topic}"}, "an Iceberg table has a name"),
        ({"format": "iceberg", "fields": "id LONG", "dead_letters": "/dead/{topic}"}, "an Iceberg table has a name"),
        ({"value": "bytes", "fields": "id LONG"}, "for values that are JSON objects"),
        ({"dead_letters": "dead.{topic}"}, "dead letters need fields"),
        ({"topics": ["a.b", "a-b"]}, "the topics 'a.b' and 'a-b' would both be written into lake.raw.a_b"),
        ({"topics": ["Orders", "orders"]}, "would both be written into lake.raw.orders"),
        ({"options": {"kafka.ssl.truststore.password": "geheim"}}, "can't set 'kafka.ssl.truststore.password'"),
    ],
)
def test_what_cannot_work_is_refused_and_no_secret_is_said(config: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        planned(**{"topics": ["orders"], **config})
    assert "geheim" not in str(refused.value)


def task_of(**config: object) -> TaskContext:
    config = {**planned(topics=["orders"])[0], **config}
    return TaskContext(
        job="ingest", index=0, config=config, epoch=1, checkpoint_location="/checkpoints/etl/ingest/orders"
    )


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"table": "t (x INT) USING parquet -- "}, "table: "),
        ({"rows": "t; DROP TABLE t"}, "rows: "),
        ({"format": "parquet LOCATION 'x'"}, "format: "),
        ({"options": {"kafka.sasl.kerberos.kinit.cmd": "/bin/sh"}}, "options: "),
    ],
)
def test_a_task_that_no_plan_has_made_runs_nothing_by_its_config(config: dict[str, Any], why: str) -> None:
    """Whoever may write to the topics can give a task any config."""
    with pytest.raises(PlanError, match=why):
        KafkaToTable().run(cast("Any", None), task_of(**config))


class Source:
    """Of streams: it begins none."""

    class BegunError(Exception):
        pass

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def format(self, source: str) -> Source:
        assert source == "kafka"
        return self

    def options(self, **options: str) -> Source:
        self.told = options
        raise self.BegunError


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worker knows one, with a secret."""
    file = tmp_path / "clusters.json"
    file.write_text('{"broker:9092": {"spark": {"kafka.sasl.jaas.config": "geheim"}}}')
    monkeypatch.setenv("COSPARK_KAFKA_CLUSTERS", str(file))


@pytest.mark.usefixtures("clusters")
def test_the_secrets_of_a_worker_go_only_to_the_servers_for_which_it_has_them() -> None:
    task, source = task_of(keeps="bytes", options={"maxOffsetsPerTrigger": "10"}), Source()
    with pytest.raises(Source.BegunError):
        KafkaToTable().run(cast("Any", SimpleNamespace(readStream=source)), task)
    assert source.told == {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
        "kafka.sasl.jaas.config": "geheim",
        "kafka.bootstrap.servers": "broker:9092",
        "subscribe": "orders",
    }
    assert "geheim" not in str(task.config)
    for its_config in (task_of(keeps="bytes", servers="elsewhere:9092"), task_of(servers="broker:9092,elsewhere:9092")):
        with pytest.raises(PlanError, match="bootstrap_servers: this worker does not read from") as refused:
            KafkaToTable().run(cast("Any", SimpleNamespace(readStream=source)), its_config)
        assert not is_retryable(refused.value)
    with pytest.raises(PlanError, match="bootstrap_servers: this worker does not read from"):
        planned(topics=["orders"], bootstrap_servers="elsewhere:9092")


def test_each_topic_is_a_stream_with_a_checkpoint_of_its_own_wherever_it_is_in_the_list() -> None:
    tasks = planned(topics=["orders", "shop.items", "orders"])
    assert [(task["name"], task["table"], task["keeps"]) for task in tasks] == [
        ("orders", "lake.raw.orders", "all"),
        ("shop.items", "lake.raw.shop_items", "all"),
    ]
    assert [task["checkpoint_key"] for task in tasks] == ["orders", "shop.items"]
    (alone,) = planned(topics=["shop.items"])
    assert alone == tasks[1]


def test_in_a_path_a_topic_has_its_own_name() -> None:
    (task,) = planned(topics=["shop.items"], table="s3a://lake/{topic}", value="bytes")
    assert (task["table"], task["keeps"]) == ("s3a://lake/shop.items", "bytes")


def test_dead_letters_are_kept_by_a_second_stream() -> None:
    tasks = planned(topics=["orders"], fields="id LONG", dead_letters="lake.dead.{topic}")
    assert [(task["name"], task["table"], task["keeps"]) for task in tasks] == [
        ("orders", "lake.raw.orders", "parsed"),
        ("orders (dead letters)", "lake.dead.orders", "others"),
    ]
    assert len({task["checkpoint_key"] for task in tasks}) == 2
