"""A task that takes longer than its job allows is stopped, and has failed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executor_bench import A0, A1, PLANNER, Bench, bench
from waiting import eventually

from airflow_provider.state.records import JobDefinition, TaskState, TaskWork
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.run_table import RunTable
from airflow_provider.worker.tasks.runs.runs import TaskRun

pytestmark = pytest.mark.turned_clock

SOON_MS = 30
STOPPED = "stopped after task_timeout of 0.03 s"


def run_of(task: TaskId, *, timeout_ms: int | None, began_ms: int | None) -> TaskRun:
    job = JobDefinition(name="a", entry_point="m:f", timeout_ms=timeout_ms)
    work = TaskWork(task=task, definition=job, config={}, fingerprint="")
    return TaskRun(work=work, epoch=Epoch(1), state=RunState.STARTED, began_ms=began_ms)


def is_told_to_stop(worker: Bench) -> bool:
    return (A0, STOPPED) in worker.runner.told


async def test_it_is_stopped_and_tried_again_as_often_as_the_job_says() -> None:
    async with bench() as worker:
        await worker.submit(timeout_ms=SOON_MS, retries=1, retry_delay_ms=1)
        worker.take(A0)
        await worker.becomes(A0, TaskState.FAILED)
        told = worker.told(A0)
        assert (told.state, told.attempt, told.failures) == (TaskState.FAILED, 2, 2)
        assert told.error is not None
        assert told.error.message == STOPPED
        assert worker.runner.told == [(A0, STOPPED)] * 2


async def test_who_ends_in_time_is_left_alone_and_the_next_one_has_the_whole_time() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(timeout_ms=60_000)
        worker.take(A0, A1)
        await worker.runs(A0)
        worker.runner.finish(A0)
        await worker.runs(A1)
        assert worker.state(A0) is TaskState.FINISHED
        assert worker.runner.told == []


async def test_an_error_on_the_way_out_is_not_the_reason() -> None:
    async with bench() as worker:
        worker.runner.stubborn.add(A0)
        await worker.submit(timeout_ms=SOON_MS)
        worker.take(A0)
        await eventually(lambda: is_told_to_stop(worker))
        worker.runner.fail(A0, "Job cancelled")
        await worker.becomes(A0, TaskState.FAILED)
        error = worker.told(A0).error
        assert error is not None
        assert error.message == STOPPED


async def test_one_that_does_not_stop_keeps_its_slot_until_it_does() -> None:
    async with bench(slots=1) as worker:
        worker.runner.stubborn.add(A0)
        await worker.submit(timeout_ms=SOON_MS)
        worker.take(A0, A1)
        await eventually(lambda: is_told_to_stop(worker))
        assert worker.executor.running == {A0}
        worker.runner.let_go(A0)
        await worker.becomes(A0, TaskState.FAILED)
        await worker.becomes(A1, TaskState.FAILED)
        assert [order.task for order in worker.runner.orders] == [A0, A1]


async def test_one_that_moves_while_it_is_being_stopped_has_failed_all_the_same() -> None:
    async with bench() as worker:
        worker.runner.stubborn.add(A0)
        await worker.submit(timeout_ms=SOON_MS, retries=9)
        worker.take(A0)
        await eventually(lambda: is_told_to_stop(worker))
        worker.stop(A0)
        worker.runner.let_go(A0)
        await worker.releases(A0, into=worker.stopped)
        await worker.becomes(A0, TaskState.STOPPED)
        told = worker.told(A0)
        assert told.failures == 1
        assert told.error is not None
        assert told.error.message == STOPPED


async def test_one_without_retries_that_moves_meanwhile_is_not_tried_elsewhere() -> None:
    async with bench() as worker:
        worker.runner.stubborn.add(A0)
        await worker.submit(timeout_ms=SOON_MS, retries=0)
        worker.take(A0)
        await eventually(lambda: is_told_to_stop(worker))
        worker.stop(A0)
        worker.runner.let_go(A0)
        await worker.becomes(A0, TaskState.FAILED)
        told = worker.told(A0)
        assert (told.state, told.attempt, told.failures) == (TaskState.FAILED, 1, 1)


async def test_other_work_takes_its_place_as_soon_as_it_has_stopped() -> None:
    async with bench() as worker:
        worker.runner.stubborn.add(A0)
        job = await worker.submit(tasks=1, timeout_ms=SOON_MS)
        worker.take(A0)
        await eventually(lambda: is_told_to_stop(worker))
        await worker.topics.submit(replace(job, timeout_ms=None))
        await worker.plan(job, [{"other": 1}])
        await eventually(lambda: (A0, "its configuration has changed") in worker.runner.told)
        worker.runner.let_go(A0)
        await eventually(lambda: worker.told(A0).failures == 0, "the failure was one of other work")
        await worker.runs(A0)
        assert dict(worker.runner.order_of(A0).config) == {"other": 1}


async def test_another_limit_holds_for_what_runs() -> None:
    async with bench() as worker:
        job = await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        await worker.topics.submit(replace(job, timeout_ms=SOON_MS))
        await worker.becomes(A0, TaskState.FAILED)


def test_a_limit_that_is_taken_back_and_one_of_a_planner_mean_nothing() -> None:
    runs = RunTable()
    for task in (A0, PLANNER, A1):
        runs[task] = run_of(task, timeout_ms=SOON_MS, began_ms=1)
    runs[A0] = run_of(A0, timeout_ms=None, began_ms=1)
    assert runs.next_due_ms(now_ms=SOON_MS) == SOON_MS + 1
    over = runs.overdue(now_ms=SOON_MS + 1)
    assert over == [A1], "the last one of three that were to end at the same time"


def test_what_has_not_begun_has_no_limit_yet() -> None:
    runs = RunTable()
    runs[A0] = run_of(A0, timeout_ms=1, began_ms=None)
    runs[A1] = run_of(A1, timeout_ms=2, began_ms=1)
    over = runs.overdue(now_ms=100)
    assert over == [A1]
