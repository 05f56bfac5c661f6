"""How far jobs are, in the logs of those who wait for them: the words, and how often they are said."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import context, job, jobs_snapshot, status_snapshot
from trigger_bench import FakeTopics, Triggerer, events_of, worker_trigger
from turned_clock import time_passes

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.sensors.job import JobSensor
from airflow_provider.state.records import PlanRecord, TaskState
from airflow_provider.state.reports.standing import Pace, SoFar, Standing, group_so_far
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.triggers.telling import telling_so_far
from airflow_provider.values.model import TaskId, WorkerId
from airflow_provider.values.replacing import replaced

pytestmark = pytest.mark.turned_clock

FINISHED, RUNNING, FAILED = TaskState.FINISHED, TaskState.RUNNING, TaskState.FAILED


def began(status: StatusSnapshot, *starts_ms: int | None) -> StatusSnapshot:
    """Its tasks have started then."""
    tasks = zip(status.tasks.items(), starts_ms, strict=True)
    return replace(status, tasks={task: replaced(last, started_at_ms=ms) for (task, last), ms in tasks})


class TestWords:
    def test_a_job_by_its_tasks_and_the_one_that_has_run_longest(self) -> None:
        known = jobs_snapshot(job(), tasks=5)
        status = status_snapshot(known, "job", FINISHED, RUNNING, RUNNING, FAILED)
        standing = Standing.of_job("job", known, began(status, 1, 9_000, 4_000, 1))
        assert standing.in_words(16_999) == "1 of 5 finished, 2 running (longest: job:2, 12 s), 1 failed"
        assert standing.in_words(0) == "1 of 5 finished, 2 running (longest: job:2, 0 s), 1 failed", "another clock"

    def test_the_task_is_called_as_its_plan_calls_it(self) -> None:
        configs: list[Any] = [{"name": "orders"}, {"name": "items"}]
        plan = PlanRecord.of(job(), configs, planned_by=WorkerId("w"), at_ms=1)
        known = JobsSnapshot(jobs={"job": job()}, plans={"job": plan})
        standing = Standing.of_job("job", known, status_snapshot(known, "job", RUNNING, FINISHED))
        assert f"(longest: {known.label(TaskId('job', 0))})" in standing.in_words(0)
        assert "orders" in standing.in_words(0)

    def test_what_an_older_worker_wrote_has_no_start(self) -> None:
        known = jobs_snapshot(job(), tasks=1)
        standing = Standing.of_job("job", known, status_snapshot(known, "job", RUNNING))
        assert standing.in_words(5) == "0 of 1 finished, 1 running (longest: job:0), 0 failed"

    def test_a_job_without_a_plan(self) -> None:
        assert Standing.of_job("job", jobs_snapshot(job()), StatusSnapshot()).in_words(0) == "being planned"

    def test_time_that_passes_is_no_change_and_a_task_that_ends_is_one(self) -> None:
        known = jobs_snapshot(job(), tasks=2)
        before = Standing.of_job("job", known, status_snapshot(known, "job", RUNNING, RUNNING))
        assert before == Standing.of_job("job", known, status_snapshot(known, "job", RUNNING, RUNNING))
        assert before != Standing.of_job("job", known, status_snapshot(known, "job", RUNNING, FINISHED))

    def test_a_group_by_all_its_jobs_that_are_not_over(self) -> None:
        over, one = jobs_snapshot(job("over"), tasks=3), jobs_snapshot(job("one"), tasks=2)
        jobs = JobsSnapshot(jobs={**over.jobs, **one.jobs, "new": job("new")}, plans={**over.plans, **one.plans})
        tasks = {
            **status_snapshot(over, "over", FINISHED, FINISHED, FAILED).tasks,
            **began(status_snapshot(one, "one", FINISHED, RUNNING), 1, 2_000).tasks,
        }
        so_far = group_so_far("g", jobs, StatusSnapshot(tasks=tasks))
        assert so_far is not None
        words = "Group g: 1 of 2 finished, 1 running (longest: one:1, 3 s), 0 failed, 1 more being planned"
        assert so_far.in_words(5_000) == words

    def test_of_a_group_that_is_idle_its_workers_say_so_themselves(self) -> None:
        assert group_so_far("g", JobsSnapshot(), StatusSnapshot()) is None


def test_it_is_said_when_it_changes_but_not_too_often_and_again_from_time_to_time() -> None:
    pace = Pace()
    said = [
        at for at, what in ((0, "a"), (10, "a"), (20, "b"), (29, "b"), (30, "b"), (59, "c"), (61, "b"), (630, "b"))
        if pace.is_due(what, at)
    ]  # fmt: skip
    assert said == [0, 30, 630]


def test_a_sensor_that_pokes_every_second_fills_no_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = jobs_snapshot(job(), tasks=2)
    status = status_snapshot(known, "job", RUNNING, RUNNING)
    monkeypatch.setattr(SparkGroupHook, "look_now", lambda _hook, _group, read: read(known, status))
    sensor = JobSensor(task_id="t", group="g", job="job", run_key="r1")
    for _ in range(3):
        assert not sensor.poke(context()).is_done
    assert capsys.readouterr().out.count("0 of 2 finished, 2 running (longest: job:0), 0 failed") == 1


@pytest.fixture
async def triggerer(monkeypatch: pytest.MonkeyPatch) -> Triggerer:
    return Triggerer(monkeypatch)


@pytest.mark.parametrize("kind", ["sensor", "worker"])
async def test_the_log_of_one_who_waits_in_the_triggerer_tells_each_change(
    kind: str, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    condition = JobCondition(job="job", run_key="r1", goal=JobGoal.FINISHED).to_json()
    sensor = GroupTrigger(kafka_conn_id="c", group="g", condition=condition)
    known = jobs_snapshot(job(), tasks=2)
    triggerer.topics.now(jobs=known, status=status_snapshot(known, "job", RUNNING, RUNNING))
    trigger: Any = sensor if kind == "sensor" else worker_trigger()
    running = asyncio.ensure_future(events_of(trigger))
    await time_passes(34)
    assert "0 of 2 finished, 2 running" in caplog.text
    triggerer.topics.now(status=status_snapshot(known, "job", FINISHED, RUNNING))
    await time_passes(34)
    assert "1 of 2 finished, 1 running (longest: job:1), 0 failed" in caplog.text
    await time_passes(500)
    lines = [line for line in caplog.messages if "finished," in line]
    assert len(lines) == 2, "what has not changed is not said again"
    begins = "Group g: waiting for job 'job' of run 'r1' to be finished: " if kind == "sensor" else "Group g: "
    assert lines[0].startswith(begins + "0 of 2")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await trigger.cleanup()


async def test_a_thousand_who_want_to_know_the_same_share_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    looks: list[int] = []

    def look(_jobs: JobsSnapshot, _status: StatusSnapshot) -> SoFar:
        looks.append(1)
        return SoFar(text=f"look {len(looks)}")

    async with AsyncExitStack() as all_of_them:
        topics: Any = FakeTopics()
        for _ in range(1_000):
            await all_of_them.enter_async_context(telling_so_far(topics, None, look))
        await time_passes(59)
    assert set(caplog.messages) == {"look 1"}
    assert len(caplog.messages) == 1_000, "a line each, in so short a time"


async def test_many_tasks_are_counted_beside_the_loop() -> None:
    topics: Any = FakeTopics()
    tasks: Any = dict.fromkeys(TaskId("j", index) for index in range(2_000))
    topics.status = StatusSnapshot(tasks=tasks)
    where: list[threading.Thread] = []

    def look(_jobs: JobsSnapshot, _status: StatusSnapshot) -> None:
        where.append(threading.current_thread())

    async with telling_so_far(topics, None, look):
        await time_passes(34)
    assert where[0] is not threading.current_thread()
