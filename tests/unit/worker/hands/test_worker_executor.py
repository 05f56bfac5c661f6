"""What a worker does with the tasks it was given: slots, ends, stops, records, and no task left hanging."""

from __future__ import annotations

import asyncio
import logging

import pytest
from execution_settings import execution_settings
from executor_bench import A0, A1, A2, A3, AWAY, ME, PLANNER, Bench, bench
from runner_events import order_for
from stand_ins import MemoryTopics
from turned_clock import time_passes
from waiting import DEADLINE_S, eventually

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.errors import TopicRightsError
from airflow_provider.spark.lineage import NOTHING_NAMED
from airflow_provider.spark.runner import AttemptEvent, LineageNamed
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.state.records import JobDefinition, TaskEvent, TaskKind, TaskState
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.model import Epoch, TaskId, Tasks, planner_of
from airflow_provider.worker.hands import executor as executor_module
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.tasks import state

# ---- slots

pytestmark = pytest.mark.turned_clock


async def test_as_many_tasks_run_as_there_are_slots_and_the_rest_wait() -> None:
    async with bench(slots=2) as worker:
        await worker.submit(tasks=4)
        worker.take(A0, A1, A2, A3)
        await worker.runs(A0, A1)
        assert worker.state(A2) is None, "the group's record says who has it; that it waits needs no word"
        worker.runner.finish(A0)
        await worker.runs(A1, A2)


async def test_a_planner_needs_no_slot_and_is_not_kept_waiting() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await worker.runs(A0)
        await worker.topics.submit(JobDefinition(name="b", entry_point="m:f"))
        worker.take(planner_of("b"))
        await worker.runs(A0, planner_of("b"))


async def test_the_job_that_was_submitted_first_goes_first() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2, submitted_at_ms=2)
        older = JobDefinition(name="z", entry_point="m:f", submitted_at_ms=1)
        await worker.topics.submit(older)
        await worker.plan(older, [{}])
        worker.take(A0, A1, TaskId("z", 0))
        await worker.runs(TaskId("z", 0))


# ---- ends


async def test_a_finished_task_is_released_when_the_topic_says_that_it_has_finished() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0, A1, epoch=3)
        await worker.runs(A0, A1)
        with worker.topics.out_of_order(AWAY):
            worker.runner.finish(A0, {"rows": 7})
            await time_passes(30)
            assert worker.finished == [], "somebody else would run it again"
            assert A0 in worker.executor.running
        await worker.releases(A0, into=worker.finished)
        told = worker.told(A0)
        assert (told.state, told.result, told.worker, told.epoch) == (TaskState.FINISHED, {"rows": 7}, ME, 3)
        assert told.finished_at_ms is not None
        assert worker.stopped == []


async def test_what_ends_together_is_released_together() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        worker.runner.finish(A0)
        worker.runner.finish(A1)
        await worker.releases(A0, A1, into=worker.finished)
        assert worker.finished == [frozenset({A0, A1})], "each release is an event of the membership"


async def test_what_has_ended_is_released_before_anything_else_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        told: list[str] = []

        def drop_when_it_has_ended() -> None:
            if A0 not in worker.executor.running and not told:
                worker.stop(A0)

        monkeypatch.setattr(worker.executor, "_finished", lambda _: told.append("finished"))
        monkeypatch.setattr(worker.executor, "_stopped", lambda _: told.append("stopped"))
        monkeypatch.setattr(worker.executor, "_changed", drop_when_it_has_ended)
        worker.runner.finish(A0)
        await eventually(lambda: "stopped" in told)
        assert told == ["finished", "stopped"]


async def test_an_end_is_written_in_the_epoch_of_the_writing_or_it_would_be_taken_for_an_old_word() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0, epoch=3)
        await worker.runs(A0)
        with worker.topics.out_of_order(AWAY):
            worker.runner.finish(A0)
            await time_passes(30)
            worker.executor.advance(Epoch(7))
        await worker.releases(A0, into=worker.finished)
        assert worker.told(A0).epoch == 7
        told = [event.status for event in worker.topics.events if isinstance(event, TaskEvent)]
        assert [(status.state, status.epoch) for status in told[1:]] == [(TaskState.FINISHED, 7)]


async def test_what_is_over_already_is_not_run_again() -> None:
    async with bench() as worker:
        await worker.submit(run_key="r")
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        worker.take(A0, TaskId("unknown", 0), epoch=2)
        assert worker.stopped[-1] == {A0, TaskId("unknown", 0)}
        assert len(worker.runner.orders) == 1


async def test_a_new_run_of_a_task_that_has_just_finished_runs_it_again() -> None:
    async with bench() as worker:
        await worker.submit(run_key="first")
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        await worker.submit(run_key="second")
        assert A0 in configured(worker.topics.jobs, worker.topics.status.tasks)
        worker.take(A0, epoch=2)
        await worker.runs(A0)
        assert (worker.told(A0).run_key, worker.told(A0).attempt) == ("second", 1)


async def test_a_task_that_finishes_while_it_is_revoked_has_finished() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        worker.stop(A0)
        worker.runner.finish(A0, "just made it")
        await worker.releases(A0, into=worker.finished)
        assert worker.told(A0).result == "just made it"
        assert worker.stopped == []


# ---- stops


async def test_a_revoked_task_is_released_as_soon_as_it_has_stopped() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        worker.runner.stubborn.add(A0)
        worker.stop(A0, A1)
        await worker.releases(A1, into=worker.stopped)
        assert A0 in worker.executor.running
        worker.runner.let_go(A0)
        await worker.releases(A0, into=worker.stopped)
        await worker.becomes(A0, TaskState.STOPPED)
        assert {reason for _, reason in worker.runner.told} == {"revoked"}


async def test_what_waits_is_released_at_once_and_never_starts() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        worker.stop(A1, A2)
        assert worker.stopped == [frozenset({A1, A2})], "also what was never given"
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        assert worker.state(A1) is None, "nobody has started it"
        assert [order.task for order in worker.runner.orders] == [A0]


async def test_a_task_told_to_stop_before_it_began_does_not_begin() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        worker.stop(A0)
        await worker.releases(A0, into=worker.stopped)
        assert worker.runner.orders == []


async def test_a_task_given_back_while_it_stops_starts_again_when_it_has_stopped() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        worker.stop(A0)
        worker.take(A0, epoch=2)
        worker.runner.let_go(A0)
        await eventually(lambda: len(worker.runner.orders) == 2)
        assert (worker.runner.orders[1].epoch, worker.runner.orders[1].attempt) == (2, 2)
        assert worker.stopped == []


async def test_an_ended_task_whose_end_cannot_be_written_is_given_up_when_somebody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "LAST_WORDS_MS", 50)
    monkeypatch.setattr(executor_module, "_LAST_WORDS_S", 0.05)
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        with worker.topics.out_of_order(AWAY):
            worker.runner.finish(A0)
            await asyncio.sleep(0)
            worker.stop(A0)
            await worker.releases(A0, into=worker.stopped)
        assert worker.finished == []
        assert worker.executor.running == frozenset()


async def test_so_is_one_that_came_to_its_end_only_after_somebody_had_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "LAST_WORDS_MS", 50)
    monkeypatch.setattr(executor_module, "_LAST_WORDS_S", 0.05)
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        with worker.topics.out_of_order(AWAY):
            worker.stop(A0)
            worker.runner.finish(A0)
            await worker.releases(A0, into=worker.stopped)
        assert worker.finished == []
        assert worker.executor.running == frozenset()


async def test_a_planner_that_would_plan_again_is_released_while_its_plan_is_being_written() -> None:
    async with bench() as worker:
        await worker.submit(replan_interval_ms=60_000)
        worker.take(PLANNER)
        await worker.runs(PLANNER)
        with worker.topics.out_of_order(AWAY):
            worker.runner.finish(PLANNER, [{"i": 9}])
            await asyncio.sleep(0)
            worker.stop(PLANNER)
        await worker.releases(PLANNER, into=worker.stopped)
        assert worker.executor.running == frozenset()
        worker.take(PLANNER, epoch=2)
        await worker.runs(PLANNER)


async def test_what_has_ended_and_what_waits_is_not_counted_among_the_stopped() -> None:
    async with bench(slots=2) as worker:
        await worker.submit(tasks=3)
        worker.take(A0, A1, A2)
        await worker.runs(A0, A1)
        with worker.topics.out_of_order(AWAY):
            worker.runner.finish(A0)
            worker.stop(A0, A1, A2)
        await worker.releases(A1, A2, into=worker.stopped)
        assert worker.executor.stopped_running == 1, "A1; the last words of A0 are being written"


# ---- records


async def test_each_step_says_what_it_is_about() -> None:
    async with bench() as worker:
        await worker.submit(kind=TaskKind.BATCH, run_key="r")
        before = wall_ms()
        worker.take(A0, epoch=4)
        await worker.runs(A0)
        told = worker.told(A0)
        assert (told.run_key, told.attempt, told.kind, told.epoch) == ("r", 1, TaskKind.BATCH, 4)
        assert told.started_at_ms is not None
        assert before <= told.started_at_ms <= wall_ms()
        worker.runner.streams(A0)
        await eventually(lambda: worker.told(A0).kind is TaskKind.STREAMING)
        worker.executor.advance(Epoch(5))
        worker.runner.finish(A0)
        await worker.becomes(A0, TaskState.FINISHED)
        assert worker.told(A0).epoch == 5, "it is said in the epoch in which it happened"


async def test_what_cannot_be_written_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with bench(slots=9) as worker:
        await worker.submit(tasks=4)
        with worker.topics.out_of_order(TopicRightsError("g.status", "Write")), caplog.at_level(logging.WARNING):
            worker.take(A0, A1, A2, A3)
            await eventually(lambda: len(worker.runner.running) == 4)
            await time_passes(30)
    assert len([record for record in caplog.records if "can't write" in record.message]) == 1


# ---- the executor's own end


async def test_it_is_done_when_there_has_been_nothing_to_do_for_long_enough() -> None:
    async with bench(linger_s=5) as worker:
        assert not worker.executor.done
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        await time_passes(60)
        assert not worker.executor.done
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        await time_passes(4)
        assert not worker.executor.done
        await time_passes(2)
        assert worker.executor.done


async def test_drained_it_starts_nothing_more() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        worker.executor.drain()
        worker.runner.finish(A0)
        await worker.releases(A0, into=worker.finished)
        assert worker.executor.running == frozenset()
        assert len(worker.runner.orders) == 1


async def test_drained_it_still_plans_for_a_new_job_would_wait_until_it_has_left() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        worker.executor.drain()
        await worker.topics.submit(JobDefinition(name="b", entry_point="m:f"))
        worker.take(planner_of("b"))
        await worker.runs(A0, planner_of("b"))
        worker.runner.finish(planner_of("b"), [{}])
        await worker.releases(planner_of("b"), into=worker.finished)


async def test_closing_stops_what_runs_says_so_and_fails_nothing() -> None:
    async with bench(slots=1) as worker:
        await worker.submit(tasks=2)
        worker.take(A0, A1)
        await worker.runs(A0)
        await worker.executor.close()
        assert worker.state(A0) is TaskState.STOPPED
        assert worker.state(A1) is None, "it has not started; the next worker starts it"
        assert [order.task for order in worker.runner.orders] == [A0]


async def test_closing_does_not_wait_for_a_task_that_does_not_stop_or_a_topic_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state, "LAST_WORDS_MS", 50)
    monkeypatch.setattr(executor_module, "_LAST_WORDS_S", 0.05)
    async with bench() as worker:
        await worker.submit()
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        worker.runner.stubborn.add(A0)
        with worker.topics.out_of_order(AWAY):
            worker.stop(A0)
            worker.runner.finish(A1)
            await asyncio.wait_for(worker.executor.close(), DEADLINE_S)
    assert "still running at its end: a:0" in caplog.text


async def test_an_event_that_cannot_happen_is_logged_with_what_happened_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with bench(mask=lambda text: text.replace("a:0", "***").replace("m:f", "###")) as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        with pytest.raises(state.ImpossibleEventError) as raised:
            worker.executor._feed(AttemptEvent(order=order_for(A0)))
        assert "a:0, which is started: AttemptEvent(" in str(raised.value)
        assert "entry_point='###'" in str(raised.value)
        assert "what happened last:\n" in caplog.text
        assert "TasksGiven(" in caplog.text
        assert "    StartAttempt(run=<TaskRun task=*** epoch=1>)" in caplog.text


async def test_the_machine_has_no_use_for_what_a_task_reads_and_writes() -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        worker.executor._on_event(LineageNamed(order=order_for(A0), lineage=NOTHING_NAMED))
        assert worker.executor.running == {A0}


async def test_a_fault_of_its_own_is_held_for_the_worker_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Bench(MemoryTopics(), slots=1, linger_s=60)
    await worker.submit()

    async def broken(_order: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(worker.runner, "start", broken)
    worker.take(A0)
    await eventually(lambda: worker.executor.fault is not None)
    assert str(worker.executor.fault) == "a bug"
    await worker.executor.close()


# ---- with a runner that runs by itself


async def test_with_the_noop_runner_a_job_runs_from_plan_to_end() -> None:
    topics, finished = MemoryTopics(), list[Tasks]()
    executor = TaskExecutor(
        execution_settings(),
        group_id="g",
        topics=topics,
        make_runner=NoopRunner,
        checkpoint_root="/checkpoints",
        stopped=lambda _: None,
        finished=finished.append,
        changed=lambda: None,
    )
    await topics.submit(JobDefinition(name="a", entry_point="noop:job", config={"seconds": 0.01}, max_tasks=4))
    executor.take(frozenset({PLANNER}), Epoch(1))
    await eventually(lambda: topics.jobs.plan_of("a"))
    executor.take(frozenset({A0, A1, A2, A3}), Epoch(2))
    await eventually(lambda: len(frozenset().union(*finished)) == 5)
    assert {status.state for status in topics.status.tasks.values()} == {TaskState.FINISHED}
    await executor.close()
