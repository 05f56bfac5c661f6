"""Tasks by name: what a plan calls them, wherever people read of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from executor_bench import A0, PLANNER, bench
from group_records import record_of
from rich.console import Console
from stand_ins import MemoryTopics

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.cli.group_commands.status import render
from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskState,
    TaskStatus,
    task_name,
)
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.reports.standing import Standing
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, MemberId, TaskId, WorkerId, labelled, planner_of
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.reporting.narrator import Narrator

pytestmark = pytest.mark.turned_clock

W1 = WorkerId("w1")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=9)
PLAN = PlanRecord.of(JOB, [{"name": "orders"}, {"checkpoint_key": "items"}, {"i": 2}], planned_by=W1, at_ms=0)
JOBS = JobsSnapshot(jobs={"a": JOB}, plans={"a": PLAN})
TASKS = [TaskId("a", index) for index in range(3)]
FAILED = TaskStatus(
    task=A0,
    state=TaskState.FAILED,
    epoch=Epoch(5),
    worker=W1,
    fingerprint=PLAN.fingerprints[0],
    failures=1,
    error=TaskFailure(message="boom"),
)
GROUP = record_of(
    {W1: frozenset(TASKS)},
    members={W1: MemberId("1")},
    moves=(Move(tasks=frozenset({TASKS[1]}), source=None, target=W1, reason=MoveReason.NEW),),
)
STATUS = StatusSnapshot(group=GROUP, tasks={A0: FAILED})


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"name": "orders", "checkpoint_key": "k"}, "orders"),
        ({"checkpoint_key": "k"}, "k"),
        ({"name": {"first": "x"}, "checkpoint_key": "k"}, "k"),
        ({"name": " \n ", "checkpoint_key": 7}, ""),
        ({}, ""),
        ({"name": "two\nlines\tand more"}, "two lines and more"),
        ({"name": "\x1b[31mred\u202e \udcff"}, "?[31mred? ?"),
        ({"name": "x" * 60}, "x" * 60),
        ({"name": "x" * 1_000_000}, "x" * 59 + "…"),
    ],
)
def test_a_name_is_a_short_line_that_can_be_printed(config: dict[str, Any], name: str) -> None:
    assert task_name(config) == name


def test_the_name_stands_behind_the_index() -> None:
    assert [JOBS.label(task) for task in TASKS] == ["a:0 (orders)", "a:1 (items)", "a:2"]
    assert JOBS.label(planner_of("a")) == str(planner_of("a"))
    assert JOBS.label(TaskId("a", 9)) == "a:9", "of another plan"
    assert JobsSnapshot().label(A0) == "a:0"
    assert labelled(A0, "") == "a:0"


def test_status_and_report_have_it() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(render("g", JOBS, STATUS, wall_ms=0))
    for words in ("pending: a:1 (items), a:2", "a:0 (orders): boom", "a:1 (items): nowhere → w1"):
        assert words in shown.get()
    report = JobReport.of("a", JOBS, STATUS)
    assert report is not None
    assert report.to_json()["names"] == {"0": "orders", "1": "items"}
    assert report.to_json()["errors"].keys() == {"a:0"}, "that name is a contract"
    assert report.progress.failures_in_words == "a:0 (orders): boom"


def test_the_log_of_whoever_waits_has_it() -> None:
    runs = replaced(FAILED, state=TaskState.RUNNING, started_at_ms=0)
    standing = Standing.of_job("a", JOBS, replace(STATUS, tasks={A0: runs}))
    assert standing.in_words(5_000) == "0 of 3 finished, 1 running (longest: a:0 (orders), 5 s), 0 failed"


def test_an_error_of_several_lines_is_told_in_one() -> None:
    error = TaskFailure(message="ZeroDivisionError: division by zero\nby way of PythonException: from the worker:")
    report = JobReport.of("a", JOBS, replace(STATUS, tasks={A0: replaced(FAILED, error=error)}))
    assert report is not None
    told = "ZeroDivisionError: division by zero; by way of PythonException: from the worker"
    assert report.progress.failures_in_words == f"a:0 (orders): {told}"


@pytest.mark.parametrize(
    ("failing", "last"),
    [
        (20, "a:0, an earlier attempt failed: boom"),
        (21, "and 1 more error"),
        (2_000, "and 1980 more errors"),
    ],
)
def test_of_very_many_errors_the_first_are_told(failing: int, last: str) -> None:
    """Where one table is missing, all of two thousand may be."""
    job = replace(JOB, max_tasks=failing)
    plan = PlanRecord.of(job, [{"i": index} for index in range(failing)], planned_by=W1, at_ms=0)
    tried_again = replaced(FAILED, state=TaskState.RUNNING, fingerprint=plan.fingerprints[0])
    tasks = {
        TaskId("a", index): replaced(FAILED, task=TaskId("a", index), fingerprint=plan.fingerprints[index])
        for index in range(1, failing)
    }
    jobs = JobsSnapshot(jobs={"a": job}, plans={"a": plan})
    status = replace(STATUS, tasks={A0: tried_again, **tasks})
    report = JobReport.of("a", jobs, status)
    assert report is not None
    lines = report.progress.failures_in_words.split("\n")
    assert lines[0] == "a:1: boom", "what has failed for good is told before what is tried again"
    assert (len(lines), lines[-1]) == (min(failing, 21), last)
    console = Console(width=100)
    with console.capture() as shown:
        console.print(render("g", jobs, status, wall_ms=0))
    assert shown.get().count("boom") == 3


async def test_a_workers_log_has_it(caplog: pytest.LogCaptureFixture) -> None:
    topics = MemoryTopics()
    await topics.submit(JOB)
    await topics.publish_plan(PLAN)
    await topics.publish_group(GROUP)
    with caplog.at_level(logging.INFO, "airflow_provider.worker.reporting.narrator"):
        narrator = Narrator(topics, W1, Epoch(0))
        narrator.tell()
        await topics.publish_task(replaced(FAILED, state=TaskState.RUNNING, error=None, failures=0))
        narrator.tell()
        await topics.publish_task(FAILED)
        narrator.tell()
    for words in (
        "a:1 (items) starts on w1: nobody had it",
        "This worker has a:0 (orders), a:1 (items), a:2",
        "Task a:0 (orders) is running",
    ):
        assert words in caplog.text
    assert caplog.messages[-1] == "Task a:0 (orders) failed: boom", (
        "without an empty line for a traceback that it has not"
    )


@pytest.mark.parametrize(
    ("reason", "handle", "words"),
    [
        (MoveReason.LEAVING, {"server": "sc://spark:15002/;user_id=x"}, "leaves w1, and keeps running: w1 is leaving"),
        (MoveReason.LEAVING, None, "stops on w1: w1 is leaving"),
        (MoveReason.DELETED, {"server": "sc://spark:15002"}, "stops on w1: it is no longer configured"),
    ],
    ids=["it outlives its worker", "it doesn't", "it is to run no more"],
)
async def test_what_goes_on_without_its_worker_is_not_said_to_stop(
    caplog: pytest.LogCaptureFixture, reason: MoveReason, handle: object, words: str
) -> None:
    topics = MemoryTopics()
    await topics.publish_task(replaced(FAILED, state=TaskState.RUNNING, error=None, failures=0, handle=handle))
    leaves = Move(tasks=frozenset({A0}), source=W1, target=None, reason=reason)
    await topics.publish_group(replace(GROUP, moves=(leaves,)))
    with caplog.at_level(logging.INFO, "airflow_provider.worker.reporting.narrator"):
        Narrator(topics, W1, Epoch(0)).tell()
    assert f"  a:0 {words}" in caplog.messages


async def test_a_runner_knows_it() -> None:
    async with bench() as worker:
        await worker.submit(tasks=1, config={"name": "orders"})
        worker.take(A0, PLANNER)
        await worker.runs(A0)
        assert worker.runner.order_of(A0).label == "a:0 (orders)"


TWENTY = ", ".join(f"b:{index}" for index in range(20))


@pytest.mark.parametrize(
    ("tasks", "lines"),
    [
        (4, [f"Task b:{index} is running (epoch 3)" for index in range(4)]),
        (5, ["Tasks b:0, b:1, b:2, b:3, b:4 are running (epoch 3)"]),
        (21, [f"Tasks {TWENTY} are running (epoch 3)", "Tasks b:20 are running (epoch 3)"]),
    ],
)
async def test_many_that_begin_together_are_told_together(
    caplog: pytest.LogCaptureFixture, tasks: int, lines: list[str]
) -> None:
    topics = MemoryTopics()
    narrator = Narrator(topics, W1, Epoch(0))
    for index in range(tasks):
        task = TaskId("b", index)
        await topics.publish_task(TaskStatus(task=task, state=TaskState.RUNNING, epoch=Epoch(3), worker=W1))
    with caplog.at_level(logging.INFO, "airflow_provider.worker.reporting.narrator"):
        narrator.tell()
    assert caplog.messages == lines
