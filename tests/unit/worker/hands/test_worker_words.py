"""How much a worker writes: a word for each step of a task, and none for thousands that only wait.

Everything is counted; nothing depends on how long it takes. A group that is too slow for its work must not be given
more to read by each round.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from executor_bench import A0, A1, A2, AWAY, ME, PLANNER, Bench, bench
from waiting import eventually

from airflow_provider.state.records import PlanRecord, TaskEvent, TaskState, TaskStatus, TaskWork
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.tasks.runs import run_table
from airflow_provider.worker.tasks.runs.runs import TaskRun

pytestmark = pytest.mark.turned_clock

MANY = 1_000
OTHER = WorkerId("w9")


def tasks(number: int) -> list[TaskId]:
    return [TaskId("a", index) for index in range(number)]


def words(worker: Bench) -> Counter[TaskState]:
    """The steps of tasks that the timeline has, by state."""
    return Counter(event.status.state for event in worker.topics.events if isinstance(event, TaskEvent))


async def run_to_the_end(worker: Bench, number: int) -> None:
    def left() -> bool:
        for task in worker.runner.running:
            worker.runner.finish(task)
        return len(frozenset().union(*worker.finished)) == number

    await eventually(left, "all have finished")


async def told(worker: Bench, task: TaskId, state: TaskState, by: WorkerId = ME, **more: Any) -> None:
    """What was said before this worker began."""
    plan = worker.topics.jobs.plan_of("a")
    assert plan is not None
    word = {"run_key": "r", "fingerprint": plan.fingerprints[task.index], "epoch": Epoch(1), **more}
    await worker.topics.publish_task(TaskStatus(task=task, state=state, worker=by, **word))


async def test_a_task_that_runs_once_undisturbed_takes_two_words() -> None:
    async with bench(slots=4) as worker:
        await worker.submit(tasks=50)
        worker.take(*tasks(50))
        await run_to_the_end(worker, 50)
        assert words(worker) == {TaskState.RUNNING: 50, TaskState.FINISHED: 50}


async def test_what_waits_through_rounds_and_goes_elsewhere_takes_none() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=MANY)
        worker.take(*tasks(MANY))
        await worker.runs(A0)
        for epoch in range(2, 9):
            worker.executor.advance(Epoch(epoch))
        worker.stop(*tasks(MANY)[1:])
        worker.take(*tasks(MANY)[1:], epoch=9)
        worker.executor.advance(Epoch(9))
        await worker.submit(tasks=MANY, retries=3)
        await asyncio.sleep(0)
        assert words(worker) == {TaskState.RUNNING: 1}


async def test_nor_when_its_job_is_removed() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=MANY)
        worker.take(*tasks(MANY))
        await worker.runs(A0)
        await worker.topics.remove("a")
        await eventually(lambda: not worker.topics.status.tasks and not worker.executor.running)
        assert words(worker) == {TaskState.RUNNING: 1, TaskState.STOPPED: 1}
        await worker.releases(A0, into=worker.stopped)
        assert worker.stopped == [frozenset(tasks(MANY)[1:]), frozenset({A0})], "all that waited are released together"


async def test_who_lets_go_of_a_waiting_task_by_itself_says_so() -> None:
    async with bench(slots=1) as worker:
        job = await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        await worker.plan(job, [{"i": 0}])
        await worker.becomes(A1, TaskState.STOPPED)
        assert worker.stopped == [frozenset({A1})]


async def test_of_a_task_that_a_lost_worker_ran_it_is_said_that_it_waits() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=3, run_key="r")
        await told(worker, A1, TaskState.RUNNING, OTHER, started_at_ms=1)
        await told(worker, A2, TaskState.STOPPED, OTHER, started_at_ms=1)
        worker.take(A0, A1, A2, epoch=2)
        await worker.becomes(A1, TaskState.PENDING)
        assert (worker.told(A1).worker, worker.told(A1).attempt, worker.told(A1).started_at_ms) == (ME, 2, None)
        assert worker.state(A2) is TaskState.STOPPED


@pytest.mark.parametrize("run_key", ["r", "the run before"])
async def test_of_what_it_had_let_go_of_before_it_is_said_once_it_is_kept(run_key: str) -> None:
    """A leader that goes by words about tasks alone would take it for let go of, round after round."""
    state = TaskState.STOPPED if run_key == "r" else TaskState.FINISHED
    async with bench(slots=1) as worker:
        await worker.submit(tasks=3, run_key="r")
        await told(worker, A1, state, run_key=run_key)
        await told(worker, A2, state, OTHER, run_key=run_key if state is TaskState.STOPPED else "the run before")
        worker.take(A0, A1, A2, epoch=2)
        worker.executor.advance(Epoch(2))
        await worker.runs(A0)
        assert worker.state(A1) is state, "its round has just given it to this worker: every leader knows"
        before = words(worker)
        for epoch in (3, 4, 5):
            worker.executor.advance(Epoch(epoch))
            await worker.becomes(A1, TaskState.PENDING)
        assert words(worker) - before == {TaskState.PENDING: 1}
        assert worker.told(A1).epoch == 3


async def waiting_said(worker: Bench, times: int) -> None:
    await eventually(lambda: words(worker)[TaskState.PENDING] >= times)


@pytest.mark.slow
async def test_that_is_said_of_so_many_in_a_round_and_no_more() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=MANY, run_key="r")
        for task in tasks(MANY):
            await told(worker, task, TaskState.FINISHED, run_key="the run before")
        worker.take(*tasks(MANY), epoch=2)
        for rounds in (1, 2, 3):
            worker.executor.advance(Epoch(2 + rounds))
            await waiting_said(worker, 100 * rounds)
        assert words(worker)[TaskState.PENDING] == 300


async def test_the_last_word_is_of_the_epoch_in_which_the_task_is_released() -> None:
    """The round came while it was on its way: by one of an earlier epoch a leader would not know that it was."""
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0, epoch=3)
        await worker.runs(A0)
        worker.topics.takes_s = 5
        worker.runner.finish(A0)
        await eventually(lambda: worker.topics.writing, "it is on its way")
        worker.executor.advance(Epoch(4))
        await worker.releases(A0, into=worker.finished)
        assert (worker.told(A0).state, worker.told(A0).epoch) == (TaskState.FINISHED, 4)
        assert words(worker)[TaskState.FINISHED] == 1, "it has ended once"


async def test_what_waits_counts_on_though_nothing_was_said_of_it() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2)
        with worker.topics.out_of_order(AWAY):
            worker.take(A1)
            await eventually(lambda: A1 in worker.runner.running)
            worker.stop(A1)
            await worker.releases(A1, into=worker.stopped)
        worker.take(A0, epoch=2)
        await worker.runs(A0)
        worker.take(A1, epoch=3)
        worker.stop(A1)
        worker.take(A1, epoch=4)
        worker.runner.finish(A0)
        await worker.runs(A1)
        assert worker.told(A1).attempt == 2, "that the first one stopped is known to this worker alone"


async def test_what_ended_elsewhere_while_it_waited_is_not_started_again() -> None:
    """The last word of the worker before came late: sensors may have seen it."""
    async with bench(slots=1) as worker:
        await worker.submit(tasks=3, run_key="r")
        await told(worker, A1, TaskState.STOPPED, OTHER, started_at_ms=1)
        worker.take(A0, A1, A2, epoch=2)
        await worker.runs(A0)
        await told(worker, A1, TaskState.FINISHED, OTHER, started_at_ms=1)
        worker.runner.finish(A0)
        await worker.runs(A2)
        assert worker.state(A1) is TaskState.FINISHED
        assert worker.stopped == [frozenset({A1})]
        assert A1 not in {order.task for order in worker.runner.orders}


# ---- looking


@pytest.mark.slow
async def test_changes_of_other_things_than_jobs_have_it_look_at_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=MANY)
        worker.take(*tasks(MANY))
        await worker.runs(A0)
        looked: list[TaskId] = []
        work_of = JobsSnapshot.work_of

        def look(jobs: JobsSnapshot, task: TaskId) -> TaskWork | None:
            looked.append(task)
            return work_of(jobs, task)

        monkeypatch.setattr(JobsSnapshot, "work_of", look)
        worker.executor.refresh()
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        assert set(looked) <= {A0, A1}
        await worker.submit(tasks=MANY, retries=1)
        await eventually(lambda: len(looked) >= MANY - 1)


async def test_an_end_looks_at_the_next_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=MANY)
        worker.take(*tasks(MANY))
        await worker.runs(A0)
        looked: list[TaskId] = []
        turn = run_table._turn

        def look(run: TaskRun) -> Any:
            looked.append(run.task)
            return turn(run)

        monkeypatch.setattr(run_table, "_turn", look)
        worker.runner.finish(A0)
        await worker.runs(A1)
        assert set(looked) == {A1}


async def test_a_planner_that_has_planned_is_compared_with_what_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan is in the topic, but not acknowledged yet: until then nothing of it is started anew."""
    async with bench() as worker:
        job = await worker.submit(tasks=1, replan_interval_ms=60_000)
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        publish, acknowledged = worker.topics.publish_plan, asyncio.Event()

        async def publish_slowly(plan: PlanRecord) -> None:
            await publish(plan)
            await acknowledged.wait()

        monkeypatch.setattr(worker.topics, "publish_plan", publish_slowly)
        worker.runner.finish(PLANNER, [{"i": 9}])
        await worker.topics.submit(replace(job, config={"another": 1}))
        await eventually(lambda: worker.topics.jobs is worker.executor._execution.jobs)
        acknowledged.set()
        await eventually(lambda: len(worker.runner.orders) == 2, "it plans by the new definition")
