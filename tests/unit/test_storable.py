"""Texts of job code, on their way into Airflow's database."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import traceback
from collections.abc import AsyncGenerator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from airflow.sdk import AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow_values import context, job, jobs_snapshot, status_snapshot
from operator_bench import FakeGroup, job_operator
from pydantic import JsonValue, TypeAdapter
from trigger_bench import SPEC, STORY, Triggerer, events_of, worker_trigger

from airflow_provider.common.airflow_names import AirflowException
from airflow_provider.common.storable import DEEPEST, LARGEST, LONGEST_TEXT, storable, storable_state, storing_failures
from airflow_provider.records import TaskFailure, TaskState, WrittenAsset
from airflow_provider.sensors.job import JobSensor
from airflow_provider.topics.errors import TopicError
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.worker.ending import Ending

BAD: Final = "x\0y \ud800"
ESCAPED: Final = "x\\u0000y \\ud800"
JSON: Final = TypeAdapter(JsonValue)


def stored(value: Any) -> Any:
    """``value``, after Airflow's pipe, its API and a database. Fails where one of them, or PostgreSQL, refuses it."""
    piped = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    text = json.dumps(JSON.validate_json(JSON.dump_json(JSON.validate_python(piped))), allow_nan=False)
    assert "\\u0000" not in text.replace("\\\\", ""), "PostgreSQL has no NUL"
    with sqlite3.connect(":memory:") as database:
        return json.loads(database.execute("SELECT json(?)", (text,)).fetchone()[0])


def some_text(chance: random.Random) -> str:
    kinds = [(0, 0x20), (0x20, 0x7F), (0xD800, 0xE000), (0x80, 0xD800), (0xE000, 0x110000)]
    return "".join(chr(chance.randrange(*chance.choice(kinds))) for _ in range(chance.randrange(20)))


def some_value(chance: random.Random, depth: int = 4) -> Any:
    match chance.randrange(9 if depth else 5):
        case 0:
            return some_text(chance) * chance.choice([1, 1, 1, 20_000])
        case 1:
            return chance.choice([-1, 1]) * 2 ** chance.choice([3, 62, 63, 64, 500, 20_000])
        case 2:
            return chance.choice([0.1, float("nan"), float("inf"), float("-inf"), sys.float_info.max])
        case 3:
            return chance.choice([None, True, False, b"\0", object(), JobGoal.FINISHED])
        case 4:
            value: Any = some_text(chance)
            for _ in range(chance.choice([1, 60, 300])):
                value = [value] if chance.random() < 0.5 else {some_text(chance): value}
            return value
        case 5 | 6:
            return [some_value(chance, depth - 1) for _ in range(chance.randrange(5))]
        case _:
            return {
                chance.choice([some_text(chance), 1, None, float("nan"), BAD]): some_value(chance, depth - 1)
                for _ in range(chance.randrange(5))
            }


def test_two_thousand_values_of_job_code_are_stored_as_they_are_told() -> None:
    for seed in range(2_000):
        value = storable(some_value(random.Random(seed)))
        assert stored(value) == value, f"seed {seed}"
        assert storable(value) == value, f"seed {seed}: what is in needs no other change"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({BAD: [BAD]}, {ESCAPED: [ESCAPED]}),
        ("a\tb\n\x01\x7f größe 😀 \uffff", "a\tb\n\x01\x7f größe 😀 \uffff"),
        ([float("nan"), float("inf"), 0.5], ["nan", "inf", 0.5]),
        ([2**63 - 1, 2**63, -(2**63)], [2**63 - 1, str(2**63), -(2**63)]),
        ((1, None, True), [1, None, True]),
        (JobGoal.FINISHED, "finished"),
        (object(), "(object)"),
        ("a" * 70_000, "a" * (LONGEST_TEXT - 64) + "... (cut: it has 70000 characters)"),
    ],
    ids=["refused characters", "taken characters", "not finite", "large", "tuple", "enum", "no JSON", "long"],
)
def test_what_a_database_refuses_is_escaped(value: Any, expected: Any) -> None:
    assert storable(value) == expected


def test_a_value_that_contains_itself_and_branches_comes_to_an_end() -> None:
    value = list[Any]()
    value += [value, value]
    assert len(stored(storable(value))) == 2
    assert len(json.dumps(storable([BAD * 1_000] * 100_000))) < 2 * LARGEST


def test_our_own_state_is_never_cut() -> None:
    state = {"saved": "a" * (LONGEST_TEXT + 1), "error": BAD}
    assert storable_state(state) == {**state, "error": ESCAPED}
    assert DEEPEST > 64, "a result may have so many levels"


def failed_job(group: Any) -> Any:
    """The jobs and the status of a group: a job whose only task has failed with such a text."""
    jobs = jobs_snapshot(job(), tasks=1)
    status = status_snapshot(jobs, "job", TaskState.FAILED)
    failure = TaskFailure(message=BAD, traceback=BAD)
    tasks = {task: replace(said, error=failure, worker=SPEC.member.worker) for task, said in status.tasks.items()}
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
    with pytest.raises(AirflowException):
        sensor.execute(pushed)
    report = pushed["ti"].pushed["return_value"]
    assert stored(report) == report


@pytest.mark.parametrize("waits", ["sensor", "operator"])
def test_results_and_assets_of_a_finished_job_can_be_stored(monkeypatch: pytest.MonkeyPatch, waits: str) -> None:
    group = failed_job(FakeGroup(monkeypatch))
    status = status_snapshot(group.jobs, "job", TaskState.FINISHED)
    wrote = (WrittenAsset(name=f"a{BAD}", uri="s3://lake/a", rows=1),)
    tasks = {task: replace(said, result={BAD: BAD}, wrote=wrote) for task, said in status.tasks.items()}
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
