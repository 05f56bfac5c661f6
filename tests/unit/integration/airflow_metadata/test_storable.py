"""Texts of job code, on their way into Airflow's database."""

from __future__ import annotations

import json
import random
import sqlite3
import traceback
from collections.abc import AsyncGenerator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from airflow.models.asset import AssetEvent
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow_values import context, job, jobs_snapshot, status_snapshot
from how_many import examples
from job_values import BAD, some_value
from operator_bench import FakeGroup, job_operator
from pydantic import JsonValue, TypeAdapter
from simulation.seeds import fresh
from sqlalchemy import Column, Integer, MetaData, Table, create_engine
from trigger_bench import SPEC, STORY, Triggerer, events_of, worker_trigger

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException
from airflow_provider.integration.airflow_metadata.storable import (
    DEEPEST,
    LARGEST,
    LONGEST_TEXT,
    storable,
    storable_state,
    storing_failures,
)
from airflow_provider.integration.lineage_events.openlineage_runs import operator_lineage
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.operators import steering
from airflow_provider.operators.retry_spark_job import RetrySparkJobOperator
from airflow_provider.operators.steer_spark_job import PauseSparkJobOperator, RestartSparkJobOperator
from airflow_provider.sensors.job import JobSensor
from airflow_provider.spark.lineage import Dataset, Lineage
from airflow_provider.state.operations.operations import Outcome
from airflow_provider.state.records import TaskFailure, TaskState, WrittenAsset
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.endings.ending import Ending

ESCAPED: Final = "x\\u0000y \\ud800"
THE_WHOLE: Final = "the group's topics or the log have the whole"
JSON: Final = TypeAdapter(JsonValue)


def stored(value: Any) -> Any:
    """``value``, after Airflow's pipe, its API, a database, and the pipe of who reads it. Fails where one of them, or
    PostgreSQL, refuses it.
    """
    piped = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    text = json.dumps(JSON.validate_json(JSON.dump_json(JSON.validate_python(piped))), allow_nan=False)
    assert "\\u0000" not in text.replace("\\\\", ""), "PostgreSQL has no NUL"
    with sqlite3.connect(":memory:") as database:
        kept = json.loads(database.execute("SELECT json(?)", (text,)).fetchone()[0], parse_float=as_postgresql_keeps)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(kept))


def as_postgresql_keeps(number: str) -> float:
    """Its JSON has no exponents, so large numbers come back as integers."""
    whole = "e" in number and Decimal(number) == Decimal(number).to_integral_value()
    return int(Decimal(number)) if whole else float(number)


def test_what_job_code_says_is_stored_as_it_is_told() -> None:
    for seed in fresh(examples(100)):
        value = storable(some_value(random.Random(seed)))
        assert stored(value) == value, f"seed {seed}"
        assert storable(value) == value, f"seed {seed}: what is in needs no other change"


def test_what_job_code_says_is_stored_by_airflows_own_columns() -> None:
    of_airflow = {
        "xcom": XComModel.value,
        "next_kwargs": TaskInstance.next_kwargs,
        "asset_extra": AssetEvent.extra,
        "audit_extra": Log.extra,
    }
    columns = [Column(name, column.type) for name, column in of_airflow.items()]
    table = Table("stored", MetaData(), Column("seed", Integer, primary_key=True), *columns)
    engine = create_engine("sqlite://")
    table.create(engine)
    with engine.begin() as database:
        for seed in fresh(examples(100)):
            value = storable({"value": some_value(random.Random(seed))})
            text = storable(json.dumps(value))
            database.execute(
                table.insert().values(seed=seed, xcom=value, next_kwargs=value, asset_extra=value, audit_extra=text)
            )
            row = database.execute(table.select().where(table.c.seed == seed)).one()
            assert (row.xcom, row.next_kwargs, row.asset_extra, row.audit_extra) == (value, value, value, text)
    engine.dispose()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({BAD: [BAD]}, {ESCAPED: [ESCAPED]}),
        ({1: "a", "1": "b", "1 (2)": "c"}, {"1": "a", "1 (2)": "b", "1 (2) (2)": "c"}),
        ("a\tb\n\x01\x7f größe 😀 \uffff", "a\tb\n\x01\x7f größe 😀 \uffff"),
        ([float("nan"), float("inf"), 0.5], ["nan", "inf", 0.5]),
        ([1e18, -1e19, 1e300, 1e-300], [1e18, "-1e+19", "1e+300", 1e-300]),
        ([2**63 - 1, 2**63, -(2**63)], [2**63 - 1, str(2**63), -(2**63)]),
        ((1, None, True), [1, None, True]),
        (JobGoal.FINISHED, "finished"),
        (object(), "(object)"),
        ("a" * 70_000, "a" * (LONGEST_TEXT - 96) + f"... (cut: it has 70000 characters; {THE_WHOLE})"),
    ],
    ids=[
        "refused characters",
        "keys that are one text",
        "taken characters",
        "not finite",
        "large fractions",
        "large",
        "tuple",
        "enum",
        "no JSON",
        "long",
    ],
)
def test_what_a_database_refuses_is_escaped(value: Any, expected: Any) -> None:
    assert storable(value) == expected


def test_a_value_that_contains_itself_and_branches_comes_to_an_end() -> None:
    value = list[Any]()
    value += [value, value]
    assert len(stored(storable(value))) == 2
    assert len(json.dumps(storable([BAD * 1_000] * 100_000))) < 2 * LARGEST


@pytest.mark.parametrize(
    "value",
    [
        [{"task": index, "error": "it has failed"} for index in range(100_000)],
        {f"task {index}": "it has failed" for index in range(200_000)},
        list(range(300_000)),
        ["x" * 1_000] * 8_000,
    ],
    ids=["records", "map", "numbers", "texts"],
)
def test_a_value_is_cut_before_it_keeps_a_triggerer_from_its_other_triggers(value: Any) -> None:
    """Airflow's serialisation takes a time for each character and each item, whatever the machine."""
    text = json.dumps(storable(value))
    assert len(text) < 1_200_000
    assert text.endswith((f'more; {THE_WHOLE})"]', f'more; {THE_WHOLE})"}}'))


def test_each_part_of_a_report_is_there_however_much_is_cut() -> None:
    errors = {f"job:{number}": {"message": "x" * 1_000} for number in range(2_000)}
    entered = storable({"results": {"0": 1}, "errors": errors, "runs": {"0": 1, "1": 2}, "state": "failed"})
    assert list(entered) == ["results", "errors", "runs", "state"]
    assert entered["results"] == {"0": 1}
    assert list(entered["errors"].values())[-1].endswith("more; the group's topics or the log have the whole)")
    assert list(entered["runs"]) == ["..."]
    assert entered["state"] == "failed"


@pytest.mark.parametrize("size", [1, 400, 5_000, 100_000])
def test_what_has_been_cut_is_not_cut_again_in_whichever_order_it_comes_back(size: int) -> None:
    texts = {str(number): "x" * size for number in range(4_000_000 // size)}
    entered = storable({"results": texts, "state": "failed", "runs": texts, "errors": [BAD * size] * 2_000})
    sorted_by_postgresql = {key: entered[key] for key in sorted(entered, key=lambda key: (len(key), key))}
    assert storable(sorted_by_postgresql) == entered
    assert storable(entered) == entered
    fractions = storable([1e300] * (4_000_000 // (size + 63)))
    assert storable(fractions) == fractions


def test_many_keys_that_become_one_text_stay_short() -> None:
    keys = ["".join(letters) for letters in product(("\0", "\\u0000"), repeat=12)]
    entered = storable(dict.fromkeys(keys, 1))
    assert len(entered) == len(keys)
    assert max(map(len, entered)) < max(map(len, keys)) + 10


def test_our_own_state_is_never_cut() -> None:
    state = {"saved": "a" * (LONGEST_TEXT + 1), "error": BAD}
    assert storable_state(state) == {**state, "error": ESCAPED}
    assert DEEPEST > 64, "a result may have so many levels"


def failed_job(group: Any) -> Any:
    """The jobs and the status of a group: a job whose only task has failed with such a text."""
    jobs = jobs_snapshot(job(), tasks=1)
    status = status_snapshot(jobs, "job", TaskState.FAILED)
    failure = TaskFailure(message=BAD, traceback=BAD)
    tasks = {task: replaced(said, error=failure, worker=SPEC.member.worker) for task, said in status.tasks.items()}
    group.jobs, group.status = jobs, replace(status, tasks=tasks)
    return group


@pytest.fixture
def triggerer(monkeypatch: pytest.MonkeyPatch) -> Triggerer:
    return Triggerer(monkeypatch)


async def test_the_event_of_a_job_that_has_failed_can_be_stored(triggerer: Triggerer) -> None:
    failed_job(triggerer.topics)
    condition = JobCondition(job="job", run_key=None, goal=JobGoal.FINISHED).to_json()
    (event,) = await events_of(GroupTrigger(kafka_conn_id="c", group="g", condition=condition))
    assert stored(event.payload) == event.payload
    assert ESCAPED in event.payload["problem"]


async def test_the_traceback_of_a_trigger_that_fails_can_be_stored(triggerer: Triggerer) -> None:
    failed_job(triggerer.topics).problem = TopicError(f"record {BAD}")
    condition = JobCondition(job="other", run_key=None, goal=JobGoal.FINISHED).to_json()
    with pytest.raises(Exception, match="record") as failed:
        await events_of(GroupTrigger(kafka_conn_id="c", group="g", condition=condition))
    told = "".join(traceback.format_exception(failed.value))
    assert stored(told) == told
    assert ESCAPED in told


async def test_a_fault_that_can_be_stored_is_told_as_it_is() -> None:
    @storing_failures
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise TopicError("plain")

    with pytest.raises(TopicError, match=r"^plain$"):
        _ = [event async for event in failing()]


def test_a_worker_tells_the_end_of_its_tasks_so_that_it_can_be_stored() -> None:
    summary = STORY.summary(SPEC, Ending.DRAINED, failed_job(SimpleNamespace()).status)
    assert stored(summary) == summary
    assert ESCAPED in str(next(iter(summary["failed"].values()))).replace("\\\\", "\\")


def test_what_a_worker_has_saved_can_be_stored() -> None:
    kwargs = worker_trigger(saved={"v": 1, "error": BAD}).serialize()[1]
    assert stored(kwargs["saved"]) == {"v": 1, "error": ESCAPED}


@pytest.mark.parametrize("deferrable", [True, False])
def test_who_waits_for_a_job_that_fails_leaves_a_report_that_can_be_stored(
    monkeypatch: pytest.MonkeyPatch, deferrable: bool
) -> None:
    failed_job(FakeGroup(monkeypatch))
    pushed = context()
    sensor = JobSensor(task_id="t", group="g", job="job", run_key=None, deferrable=deferrable)
    with pytest.raises(AirflowException) as failed:
        sensor.execute(pushed)
    assert stored(str(failed.value)) == str(failed.value), "and so can its error be logged"
    report = pushed["ti"].pushed["return_value"]
    assert stored(report) == report


@pytest.mark.parametrize("waits", ["sensor", "operator"])
def test_results_and_assets_of_a_finished_job_can_be_stored(monkeypatch: pytest.MonkeyPatch, waits: str) -> None:
    group = failed_job(FakeGroup(monkeypatch))
    status = status_snapshot(group.jobs, "job", TaskState.FINISHED)
    wrote = (WrittenAsset(name=f"a{BAD}", uri="s3://lake/a", rows=1),)
    tasks = {task: replaced(said, result={BAD: BAD}, wrote=wrote) for task, said in status.tasks.items()}
    group.status = replace(status, tasks=tasks)
    values: Any = {**context(), "outlet_events": OutletEventAccessors()}
    lake = AssetAlias("lake")
    if waits == "sensor":
        waiting: Any = JobSensor(task_id="t", group="g", job="job", run_key="r1", deferrable=False, outlets=[lake])
    else:
        waiting = job_operator(wait_for_completion=True, run_key="r1", deferrable=False, outlets=[lake])
    report = waiting.execute(values)
    assert stored(report) == report
    (told,) = values["outlet_events"][lake].asset_alias_events
    assert told.dest_asset_key.name == f"a{ESCAPED}"


@pytest.mark.parametrize("operator", [PauseSparkJobOperator, RestartSparkJobOperator, RetrySparkJobOperator])
def test_what_an_operator_returns_can_be_stored(monkeypatch: pytest.MonkeyPatch, operator: Any) -> None:
    outcome = Outcome(subject=BAD, changed=True)
    monkeypatch.setattr(SparkGroupHook, "operate", lambda _hook, _group, _operation, *, by=None: outcome)
    monkeypatch.setattr(SparkGroupHook, "retry_failed", lambda _hook, _group, _job, _tasks, *, by=None: [BAD])
    monkeypatch.setattr(steering, "outcome_in_words", lambda _operation, _outcome: "done")
    returned = operator(task_id="t", group="g", job="j").execute(context())
    assert stored(returned) == returned


def test_what_a_job_says_of_its_datasets_can_be_sent() -> None:
    lineage = operator_lineage(Lineage(inputs=[Dataset(BAD, BAD)], outputs=[Dataset(BAD, "x" * 99_999)]))
    told = [[one.namespace, one.name] for one in (*lineage.inputs, *lineage.outputs)]
    assert stored(told) == told
