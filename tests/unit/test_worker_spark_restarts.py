"""A worker whose Spark ends: its tasks run again, and who ends Spark again and again does not take the others along."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from executor_bench import A0, A1, A2, A3, bench
from waiting import eventually

from airflow_provider.execution import spark_restarts
from airflow_provider.execution.events import SparkLost
from airflow_provider.execution.spark_restarts import TRIAL_MS, SparkRestarts
from airflow_provider.protocol.model import Epoch, TaskId, WorkerId
from airflow_provider.records import JobDefinition, TaskFailure, TaskKind, TaskState, TaskStatus, TaskWork
from airflow_provider.runs.runs import RunState, TaskRun

HOUR_MS = 3_600_000


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is started again in milliseconds."""
    monkeypatch.setattr(spark_restarts, "_FIRST_WAIT_MS", 20)


# ---- in a worker


@pytest.mark.usefixtures("at_once")
async def test_what_ran_on_a_lost_spark_runs_again_and_no_retry_is_used_up() -> None:
    async with bench() as worker:
        await worker.submit(retries=0)
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        worker.runner.lose(A0, A1)
        await worker.runs(A0, A1)
        for task in (A0, A1):
            told = worker.told(task)
            assert (told.attempt, told.failures, told.spark_deaths) == (2, 0, 1)
            assert told.error is not None
            assert told.error.message == "Spark has ended once while this task ran. The last time: exit code -9"


async def test_nothing_starts_until_spark_has_had_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_restarts, "_FIRST_WAIT_MS", HOUR_MS)
    monkeypatch.setattr(spark_restarts, "_LONGEST_WAIT_MS", HOUR_MS)
    async with bench(slots=2) as worker:
        await worker.submit(tasks=3)
        worker.take(A0, A1, A2)
        await worker.runs(A0, A1)
        worker.runner.lose(A0)
        await worker.becomes(A0, TaskState.PENDING)
        assert worker.runner.running == {A1}, "neither the lost one nor the one that waits"


@pytest.mark.usefixtures("at_once")
async def test_under_which_task_spark_has_ended_three_times_that_fails_and_its_neighbour_goes_on() -> None:
    async with bench() as worker:
        await worker.submit(retries=9)
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        worker.runner.lose(A0, A1, spark=1)
        await worker.runs(A0, A1)
        worker.runner.lose(A1, A0, spark=2)
        await worker.runs(A0)
        await worker.becomes(A1, TaskState.PENDING)
        worker.runner.lose(A0, spark=3)
        await worker.becomes(A0, TaskState.FAILED)
        error = worker.told(A0).error
        assert error is not None
        assert "Spark has ended 3 times while this task ran, so the task counts as the reason" in error.message
        assert "max_spark_deaths=3" in error.message
        await worker.runs(A1)
        assert (worker.told(A1).spark_deaths, worker.told(A1).failures) == (2, 0)


@pytest.mark.usefixtures("at_once")
async def test_the_deaths_of_spark_count_on_whoever_has_the_task() -> None:
    async with bench() as worker:
        job = await worker.submit(retries=9)
        plan = worker.topics.jobs.plan_of(job.name)
        assert plan is not None
        last = TaskStatus(
            task=A0,
            state=TaskState.STOPPED,
            epoch=Epoch(1),
            worker=WorkerId("w0"),
            fingerprint=plan.fingerprints[0],
            attempt=2,
            spark_deaths=2,
            started_at_ms=1,
        )
        await worker.topics.publish_task(last)
        worker.take(A0, epoch=2)
        await worker.runs(A0)
        assert worker.told(A0).spark_deaths == 2
        worker.runner.lose(A0)
        await worker.becomes(A0, TaskState.FAILED)


@pytest.mark.usefixtures("at_once")
async def test_a_task_that_was_to_stop_as_spark_ended_has_stopped() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        worker.stop(A0)
        worker.runner.lose(A0)
        await worker.releases(A0, into=worker.stopped)
        await worker.becomes(A0, TaskState.STOPPED)
        assert worker.told(A0).spark_deaths == 0


@pytest.mark.slow
async def test_a_stream_on_trial_lets_the_next_one_begin_when_it_has_stood_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_restarts, "_FIRST_WAIT_MS", 20)
    monkeypatch.setattr(spark_restarts, "_LOOK_AGAIN_MS", 20)
    monkeypatch.setattr(spark_restarts, "TRIAL_MS", 200)
    async with bench() as worker:
        await worker.submit(kind=TaskKind.STREAMING)
        worker.take(A0, A1)
        for spark in (1, 2):
            await worker.runs(A0, A1)
            worker.runner.lose(A0, A1, spark=spark)
        await eventually(lambda: worker.runner.running == {A0})
        await worker.runs(A0, A1)


# ---- the rule


def run_of(
    index: int, *, deaths: int = 0, state: RunState = RunState.WAITING, started_at_ms: int | None = None
) -> TaskRun:
    task = TaskId("a", index)
    work = TaskWork(definition=JobDefinition(name="a", entry_point="m:f"), task=task, config={}, fingerprint="f")
    return TaskRun(work=work, epoch=Epoch(1), spark_deaths=deaths, state=state, started_at_ms=started_at_ms)


def table(*runs: TaskRun) -> dict[TaskId, TaskRun]:
    return {run.task: run for run in runs}


def knowing(runs: Iterable[TaskRun], max_deaths: int = 3) -> SparkRestarts:
    restarts = SparkRestarts(max_deaths)
    for run in runs:
        restarts.admit(run)
    return restarts


def death_of(run: TaskRun, spark: int = 1, *, now_ms: int, wall_ms: int) -> SparkLost:
    return SparkLost(task=run.task, spark=spark, failure=TaskFailure.of("gone"), now_ms=now_ms, wall_ms=wall_ms)


def running(index: int, deaths: int, started_at_ms: int) -> TaskRun:
    return run_of(index, deaths=deaths, state=RunState.STARTED, started_at_ms=started_at_ms)


def test_with_one_chance_left_tasks_run_one_after_the_other_and_others_beside() -> None:
    waiting = table(run_of(0, deaths=2), run_of(1, deaths=2), run_of(2, deaths=1), run_of(3))
    restarts = knowing(waiting.values())
    assert restarts.blocked(waiting, now_ms=0, wall_ms=0) == {A1}
    assert restarts.blocked(waiting, frozenset({A0}), now_ms=0, wall_ms=0) == {A0}, "that one can't start now"
    on_trial = {**waiting, A0: running(0, 2, started_at_ms=1_000)}
    assert restarts.blocked(on_trial, now_ms=0, wall_ms=1_000 + TRIAL_MS - 1) == {A1}
    assert restarts.blocked(on_trial, now_ms=0, wall_ms=1_000 + TRIAL_MS) == frozenset()
    assert restarts.due_ms(on_trial, now_ms=5, wall_ms=1_000) is not None
    assert restarts.due_ms(on_trial, now_ms=5, wall_ms=1_000 + TRIAL_MS) is None


def test_a_clock_that_was_set_back_does_not_prolong_a_trial() -> None:
    runs = table(running(0, 2, started_at_ms=HOUR_MS))
    assert knowing(runs.values()).trial_ms(runs, now_ms=0, wall_ms=0) is None


def test_a_death_during_a_trial_counts_for_the_one_on_trial_alone() -> None:
    runs = table(running(0, 2, started_at_ms=0), running(1, 2, started_at_ms=TRIAL_MS), running(2, 0, started_at_ms=0))
    restarts, wall = knowing(runs.values()), TRIAL_MS + 1_000
    after = {}
    for task in (A2, A1, A0):
        after[task] = runs[task] = restarts.lost(runs, death_of(runs[task], now_ms=0, wall_ms=wall))
        runs[task] = replace(runs[task], state=RunState.WAITING)
    assert {task: run.spark_deaths for task, run in after.items()} == {A0: 2, A1: 3, A2: 0}
    assert [task for task, run in after.items() if restarts.condemns(run)] == [A1]


def test_a_death_while_nobody_is_on_trial_counts_for_all() -> None:
    runs = table(running(0, 2, started_at_ms=0), running(1, 1, started_at_ms=0), running(3, 0, started_at_ms=0))
    restarts = knowing(runs.values())
    wall = TRIAL_MS + 1
    deaths = {
        task: restarts.lost(runs, death_of(run, now_ms=0, wall_ms=wall)).spark_deaths for task, run in runs.items()
    }
    assert deaths == {A0: 3, A1: 2, A3: 1}


def test_spark_that_ends_before_a_task_has_begun_says_nothing_of_the_task() -> None:
    runs = table(run_of(0, state=RunState.STARTED))
    after = SparkRestarts(1).lost(runs, death_of(runs[A0], now_ms=0, wall_ms=0))
    assert after.spark_deaths == 0


def test_a_streams_old_deaths_are_forgiven_and_a_batchs_are_not() -> None:
    for kind, deaths in ((TaskKind.STREAMING, 1), (TaskKind.BATCH, 3)):
        runs = table(replace(running(0, 2, started_at_ms=0), kind=kind))
        after = knowing(runs.values()).lost(runs, death_of(runs[A0], now_ms=0, wall_ms=HOUR_MS))
        assert after.spark_deaths == deaths


def test_a_server_may_be_restarted_three_times_in_an_hour() -> None:
    run, restarts = replace(running(0, 0, started_at_ms=0), kind=TaskKind.STREAMING, detached=True), SparkRestarts(3)
    for spark in range(6):
        wall_ms = (spark + 1) * HOUR_MS // 6
        run = restarts.lost(table(run), death_of(run, -spark, now_ms=wall_ms, wall_ms=wall_ms))
        assert not restarts.condemns(run)
        run = replace(run, started_at_ms=wall_ms)


def test_each_death_is_followed_by_a_longer_pause_and_a_calm_time_by_a_short_one() -> None:
    restarts, runs = SparkRestarts(99), table(running(0, 0, started_at_ms=0))
    pauses, now = [], 0
    for spark in range(9):
        for _ in range(2):  # each of its tasks tells of it
            restarts.lost(runs, death_of(runs[A0], spark, now_ms=now, wall_ms=0))
        until = restarts.due_ms(runs, now_ms=now, wall_ms=0)
        assert until is not None
        assert restarts.holds(until - 1)
        assert not restarts.holds(until)
        pauses.append(until - now)
        now = until
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    now += 600_000
    restarts.lost(runs, death_of(runs[A0], 10, now_ms=now, wall_ms=0))
    assert restarts.due_ms(runs, now_ms=now, wall_ms=0) == now + 1_000
