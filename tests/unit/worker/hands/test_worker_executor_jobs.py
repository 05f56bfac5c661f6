"""What the executor does when a job changes under it, and with planners."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executor_bench import A0, A1, A2, AWAY, ME, PLANNER, Bench, bench
from waiting import eventually

from airflow_provider.kafka.topics.errors import TooLargeError
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import JobDefinition, TaskEvent, TaskState, TaskStatus, encode, job_key, plan_key
from airflow_provider.worker.reporting import journal as journal_module

pytestmark = pytest.mark.turned_clock

# ---- jobs that change


async def test_a_job_that_is_removed_stops_and_leaves_nothing_behind() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        await worker.topics.remove("a")
        await worker.releases(A0, A1, into=worker.stopped)
        await eventually(lambda: worker.executor.running == frozenset() and not worker.topics.status.tasks)
        ends = [event.status.state for event in worker.topics.events if isinstance(event, TaskEvent)]
        assert ends == [TaskState.RUNNING, TaskState.STOPPED], "the timeline tells of what had started"


async def test_a_task_that_finishes_just_as_its_job_is_removed_leaves_nothing_behind() -> None:
    """Else the next job of that name would take it for finished."""
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        await worker.topics.remove("a")
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        assert not worker.topics.status.tasks


async def test_nor_does_a_planner() -> None:
    """Else the next job of that name would take the plan for its own."""
    async with bench() as worker:
        await worker.topics.submit(JobDefinition(name="a", entry_point="m:f"))
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        worker.runner.stubborn.add(PLANNER)
        await worker.topics.remove("a")
        worker.runner.finish(PLANNER, [{"i": 9}])
        await worker.releases(PLANNER, into=worker.finished)
        assert not worker.topics.jobs.plans
        assert not worker.topics.status.tasks


async def test_nor_does_what_has_ended_before_but_could_not_be_written_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_module, "_RETRY_S", 0.01)
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)

        async def away(_status: TaskStatus) -> None:
            raise AWAY

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(worker.topics, "publish_task", away)
            worker.runner.finish(A0)
            await worker.topics.remove("a")
        await worker.releases(A0, into=worker.finished)
        assert not worker.topics.status.tasks


async def test_what_was_stopped_of_a_job_that_was_removed_is_not_remembered() -> None:
    """A worker may live for months, and see many jobs."""
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        worker.stop(A0)
        await worker.releases(A0, into=worker.stopped)
        assert set(worker.executor._execution.stops) == {A0}
        await worker.topics.remove("a")
        await eventually(lambda: not worker.executor._execution.stops)


async def test_a_job_that_was_removed_and_is_back_before_this_worker_looked_is_another_one() -> None:
    async with bench() as worker:
        job = await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        jobs = worker.topics._memory.jobs
        again = replace(job, removal=jobs.offset)
        both = None, encode(again.to_json())
        jobs.take([Record(b"job:a", value, offset) for offset, value in enumerate(both, jobs.offset)])
        await worker.releases(A0, into=worker.stopped)


async def test_a_plan_that_shrinks_stops_what_it_has_no_more_and_nothing_else() -> None:
    async with bench(slots=9) as worker:
        job = await worker.submit(tasks=3)
        worker.take(A0, A1, A2)
        await worker.runs(A0, A1, A2)
        await worker.plan(job, [{"i": 0}, {"i": 1}])
        await worker.releases(A2, into=worker.stopped)
        await worker.runs(A0, A1)
        assert len(worker.runner.orders) == 3


async def test_a_task_whose_config_changed_starts_again_with_it_and_the_others_go_on() -> None:
    async with bench() as worker:
        job = await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        await worker.plan(job, [{"i": 0}, {"i": 1, "new": True}])
        await eventually(lambda: len(worker.runner.orders) == 3)
        again = worker.runner.orders[-1]
        assert (again.task, again.config, again.attempt) == (A1, {"i": 1, "new": True}, 1)
        assert worker.stopped == [], "it was this worker's all the time"
        assert worker.finished == []


async def test_a_task_that_finishes_just_as_its_config_changes_runs_again_with_the_new_one() -> None:
    async with bench() as worker:
        job = await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        await worker.plan(job, [{"i": 0, "new": True}])
        await eventually(lambda: (A0, "its configuration has changed") in worker.runner.told)
        worker.runner.finish(A0)
        await eventually(lambda: len(worker.runner.orders) == 2)
        assert worker.runner.orders[-1].config == {"i": 0, "new": True}
        assert worker.finished == []


async def test_a_task_that_waits_waits_on_with_its_new_config() -> None:
    async with bench(slots=1) as worker:
        job = await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        await worker.plan(job, [{"i": 0}, {"i": 1, "new": True}])
        worker.runner.finish(A0)
        await worker.runs(A1)
        assert worker.runner.order_of(A1).config == {"i": 1, "new": True}


async def test_another_retry_policy_counts_for_what_runs_already_and_stops_nothing() -> None:
    async with bench() as worker:
        job = await worker.submit(retries=0)
        worker.take(A0)
        await worker.runs(A0)
        await worker.topics.submit(replace(job, retries=1, retry_delay_ms=3_600_000))
        await eventually(lambda: worker.executor._execution.runs[A0].work.definition.retries == 1)
        worker.runner.fail(A0)
        await worker.becomes(A0, TaskState.PENDING)
        await worker.topics.submit(replace(job, retries=1, retry_delay_ms=10))
        await worker.runs(A0)
        assert worker.runner.told == []


# ---- planners


async def test_a_planner_that_waits_plans_by_the_interval_that_its_job_has_by_now() -> None:
    async with bench() as worker:
        job = JobDefinition(name="a", entry_point="m:f", replan_interval_ms=3_600_000)
        await worker.topics.submit(job)
        worker.take(PLANNER)
        for interval_ms in (10, 5):
            await eventually(lambda: PLANNER in worker.runner.running)
            await worker.topics.submit(job)  # so that it waits until it is seen to
            worker.runner.finish(PLANNER, [{}])
            await worker.becomes(PLANNER, TaskState.PENDING)
            await worker.topics.submit(replace(job, replan_interval_ms=interval_ms))
        await eventually(lambda: PLANNER in worker.runner.running)


async def _planned_every_hour(worker: Bench) -> JobDefinition:
    """A job whose planner waits for its next time."""
    job = JobDefinition(name="a", entry_point="m:f", replan_interval_ms=3_600_000)
    await worker.topics.submit(job)
    worker.take(PLANNER)
    await worker.runs(PLANNER)
    worker.runner.finish(PLANNER, [{}])
    await worker.becomes(PLANNER, TaskState.PENDING)
    return job


async def test_a_planner_that_waits_plans_at_once_when_its_job_was_removed_and_submitted_again() -> None:
    async with bench() as worker:
        job = await _planned_every_hour(worker)
        feed = worker.topics._followed().jobs
        keys = [(job_key("a"), None), (plan_key("a"), None), (job_key("a"), encode(job.to_json()))]
        feed.take([Record(key.encode(), value, feed.offset + i) for i, (key, value) in enumerate(keys)])
        await eventually(lambda: PLANNER in worker.runner.running)


async def test_a_planner_that_need_not_plan_again_any_more_is_released() -> None:
    async with bench() as worker:
        job = await _planned_every_hour(worker)
        await worker.topics.submit(replace(job, replan_interval_ms=None))
        await eventually(lambda: PLANNER in worker.runner.running)
        worker.runner.finish(PLANNER, [{}])
        await worker.releases(PLANNER, into=worker.finished)


async def test_a_plan_is_written_before_its_planner_is_released() -> None:
    async with bench() as worker:
        await worker.topics.submit(JobDefinition(name="a", entry_point="m:f", max_tasks=3, run_key="r"))
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        worker.runner.finish(PLANNER, [{"i": 0}, {"i": 1}])
        await worker.releases(PLANNER, into=worker.finished)
        plan = worker.topics.jobs.plan_of("a")
        assert plan is not None
        assert (len(plan.configs), plan.planned_by, plan.run_key) == (2, ME, "r")
        assert worker.told(PLANNER).result == {"tasks": 2, "bounded": True}


async def test_a_plan_with_too_many_tasks_fails_the_job_and_says_so() -> None:
    async with bench() as worker:
        await worker.topics.submit(JobDefinition(name="a", entry_point="m:f", max_tasks=1, retries=3))
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        worker.runner.finish(PLANNER, [{}, {}])
        await worker.becomes(PLANNER, TaskState.FAILED)
        error = worker.told(PLANNER).error
        assert error is not None
        assert "returned 2 tasks, but max_tasks is 1" in error.message
        assert worker.topics.jobs.plan_of("a") is None


async def test_a_plan_may_have_any_number_of_tasks_if_nobody_has_said_how_many() -> None:
    async with bench() as worker:
        await worker.topics.submit(JobDefinition(name="a", entry_point="m:f"))
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        assert [order.max_tasks for order in worker.runner.orders] == [1], "for planners that divide by it"
        worker.runner.finish(PLANNER, [{}, {}])
        await worker.becomes(PLANNER, TaskState.FINISHED)


async def test_a_plan_that_the_topic_does_not_take_fails_the_job_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """To write it again and again would bring nothing, and those who wait for the job would never hear of it."""
    async with bench() as worker:

        async def refuse(_plan: object) -> None:
            raise TooLargeError("its size is beyond the topic's max.message.bytes")

        monkeypatch.setattr(worker.topics, "publish_plan", refuse)
        await worker.topics.submit(JobDefinition(name="a", entry_point="m:f"))
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        worker.runner.finish(PLANNER, [{}])
        await worker.becomes(PLANNER, TaskState.FAILED)
        error = worker.told(PLANNER).error
        assert error is not None
        assert "its size is beyond the topic's max.message.bytes; make fewer tasks" in error.message


async def planned(worker: Bench, configs: list[dict[str, int]]) -> None:
    await eventually(lambda: (plan := worker.topics.jobs.plan_of("a")) and list(plan.configs) == configs)


async def test_a_planner_with_an_interval_plans_again_and_writes_only_what_changed() -> None:
    async with bench() as worker:
        job = JobDefinition(name="a", entry_point="m:f", max_tasks=3, retries=1, replan_interval_ms=20)
        await worker.topics.submit(job)
        worker.take(PLANNER)
        for attempt, plan in ((1, [{"i": 0}]), (2, [{"i": 0}]), (3, [{"i": 0}, {"i": 1}])):
            await eventually(lambda: PLANNER in worker.runner.running)
            offset = worker.topics.jobs.offset
            assert worker.runner.order_of(PLANNER).attempt == attempt
            worker.runner.finish(PLANNER, plan)
            await eventually(lambda: PLANNER not in worker.runner.running)
            await planned(worker, plan)
            assert (worker.topics.jobs.offset > offset) == (attempt != 2)
        assert worker.finished == []


async def test_failures_of_a_watching_planner_count_from_the_last_plan_that_it_made() -> None:
    async with bench() as worker:
        job = JobDefinition(name="a", entry_point="m:f", retries=1, replan_interval_ms=5)
        await worker.topics.submit(job)
        worker.take(PLANNER)
        for _ in range(3):
            await eventually(lambda: PLANNER in worker.runner.running)
            worker.runner.fail(PLANNER)
            await eventually(lambda: PLANNER in worker.runner.running)
            worker.runner.finish(PLANNER, [{}])
        await eventually(lambda: PLANNER in worker.runner.running, "it goes on after its third failure")


async def test_closing_waits_for_the_end_of_a_planner_whose_plan_is_just_being_written() -> None:
    async with bench() as worker:
        await worker.topics.submit(JobDefinition(name="a", entry_point="m:f", max_tasks=9))
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        worker.topics.takes_s = 0.05
        worker.runner.finish(PLANNER, [{"i": 1}])
        await worker.executor.close()
        assert worker.finished == [frozenset({PLANNER})]
        assert worker.state(PLANNER) is TaskState.FINISHED
