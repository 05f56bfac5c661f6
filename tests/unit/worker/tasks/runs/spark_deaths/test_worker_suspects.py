"""A worker whose Spark ends: its tasks run again, and who ends Spark again and again does not take the others along."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from executor_bench import A0, A1, A2, ME, bench
from runner_events import order_for
from suspected_runs import knowing, run_of, running, table, tasks
from turned_clock import time_passes

from airflow_provider.spark.runner import SparkEnded, SparkLost
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, WorkerId, planner_of
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.suspects import Suspects, Turn
from airflow_provider.worker.tasks.runs.spark_deaths.trials import TRIAL_MS
from airflow_provider.worker.tasks.runs.taking_over import first_run

pytestmark = pytest.mark.turned_clock

HOUR_MS = 3_600_000


# ---- in a worker


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
            assert told.error.message == "exit code -9; Spark has ended once while this task ran"


async def test_nothing_starts_until_spark_has_had_its_pause() -> None:
    async with bench(slots=2) as worker:
        await worker.submit(tasks=3)
        worker.take(A0, A1, A2)
        await worker.runs(A0, A1)
        worker.runner.lose(A0)
        await worker.becomes(A0, TaskState.PENDING)
        await time_passes(0.9)
        assert worker.runner.running == {A1}, "neither the lost one nor the one that waits"
        await worker.runs(A0, A1)


async def test_an_end_of_spark_counts_only_when_the_code_of_the_task_is_called() -> None:
    """Its record can be read before the worker hears that it is stored."""
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.topics.acknowledges.clear()
        worker.take(A0)
        await worker.becomes(A0, TaskState.RUNNING)
        worker.runner.lose(A0, spark=1)
        await worker.becomes(A0, TaskState.PENDING)
        await worker.becomes(A0, TaskState.RUNNING)
        runs = asyncio.create_task(worker.runs(A0))
        await time_passes(5)
        assert not runs.done()
        worker.topics.acknowledges.set()
        await runs
        assert (worker.told(A0).attempt, worker.told(A0).spark_deaths) == (2, 0)
        worker.runner.lose(A0, spark=2)
        await worker.runs(A0)
        assert (worker.told(A0).attempt, worker.told(A0).spark_deaths) == (3, 1)


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
        assert [worker.told(task).waits_for_trial for task in (A0, A1)] == [False, True]
        worker.runner.lose(A0, spark=3)
        await worker.becomes(A0, TaskState.FAILED)
        error = worker.told(A0).error
        assert error is not None
        assert "Spark has ended 3 times while this task ran, so the task counts as the reason" in error.message
        assert "max_spark_deaths=3" in error.message
        await worker.runs(A1)
        assert (worker.told(A1).spark_deaths, worker.told(A1).failures) == (2, 0)


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


async def test_a_stream_on_trial_lets_the_next_one_begin_when_it_has_stood_it() -> None:
    async with bench() as worker:
        await worker.submit(kind=TaskKind.STREAMING)
        worker.take(A0, A1)
        for spark in (1, 2):
            await worker.runs(A0, A1)
            worker.runner.lose(A0, A1, spark=spark)
        await worker.runs(A0)
        await worker.runs(A0, A1)


# ---- the rule


def death_of(run: TaskRun, spark: int = 1, error: str = "gone") -> SparkLost:
    return SparkLost(order=order_for(run.task), spark=spark, error=error)


def test_with_one_chance_left_tasks_run_one_after_the_other_and_nothing_begins_beside() -> None:
    runs = table(run_of(0, deaths=2), run_of(1, deaths=2), run_of(2, deaths=1), run_of(3))
    suspects = knowing(runs)
    assert suspects.turn(runs, slots=9, now_ms=0) == Turn(tasks(1), tasks(0))
    assert suspects.turn(runs, tasks(0), slots=9, now_ms=0) == Turn(tasks(0), tasks(1)), "the first can't start now"
    runs[A0] = running(0, 2, began_ms=1_000)
    assert suspects.turn(runs, slots=9, now_ms=1_000 + TRIAL_MS - 1) == Turn(tasks(1), tasks())
    assert suspects.due_ms(now_ms=1_000) is not None


def test_a_trial_begins_when_what_runs_has_run_as_long_as_a_trial() -> None:
    runs = table(run_of(0, deaths=2), running(1, 0, began_ms=1_000), run_of(2))
    suspects = knowing(runs)
    assert suspects.turn(runs, slots=9, now_ms=2_000) == Turn(tasks(), tasks())
    assert suspects.due_ms(now_ms=2_000) is not None
    assert suspects.turn(runs, slots=9, now_ms=1_000 + TRIAL_MS) == Turn(tasks(), tasks(0))
    assert suspects.trial_ms(runs, now_ms=1_000 + TRIAL_MS) is None


def test_what_waits_for_a_trial_keeps_nobody_from_running_while_it_has_no_slot() -> None:
    runs = table(run_of(0, deaths=2), running(1, 0, began_ms=0), run_of(2))
    assert knowing(runs).turn(runs, slots=1, now_ms=5) == Turn(tasks(), None)


@pytest.mark.parametrize("deaths", [2, 3], ids=["counted as often", "counted more often"])
def test_a_planner_is_tried_while_other_suspects_wait_for_a_slot(deaths: int) -> None:
    """Streams may keep all slots for ever."""
    run = run_of(0, deaths=deaths)
    planner = replaced(run, work=replace(run.work, task=planner_of("z")))
    runs = table(run_of(0, deaths=2), running(1, 0, began_ms=0), planner)
    suspects = knowing(runs)
    assert suspects.turn(runs, slots=1, now_ms=TRIAL_MS) == Turn(tasks(0), frozenset({planner.task}))
    assert suspects.turn(runs, slots=2, now_ms=TRIAL_MS) == Turn(frozenset({planner.task}), tasks(0))


def test_batches_grow_while_nothing_ends() -> None:
    runs = table(*(run_of(index, deaths=2) for index in range(16)))
    suspects, now, sizes = knowing(runs), 0, []
    while batch := suspects.turn(runs, slots=99, now_ms=now).only:
        sizes.append(len(batch))
        suspects.begun(Turn(only=batch), runs)
        for task in batch:
            runs[task] = replaced(runs[task], state=RunState.STARTED, began_ms=now)
        assert suspects.turn(runs, slots=99, now_ms=now).only == tasks()
        now += TRIAL_MS
        for run in suspects.acquitted(runs, now_ms=now):
            runs[run.task] = run
            assert run.deaths == 0
    assert sizes == [1, 2, 4, 8, 1]


def test_those_that_were_counted_less_come_back_together_before_the_others() -> None:
    runs = table(run_of(0, deaths=3), run_of(1, deaths=3), *(run_of(index, deaths=2) for index in range(2, 9)))
    assert knowing(runs).turn(runs, slots=99, now_ms=0).only == tasks(*range(2, 9))


def test_whose_trial_is_broken_off_lets_those_go_first_that_have_had_none() -> None:
    """Otherwise what was counted less, and fails again and again, keeps off the trials of the others for ever."""
    runs = table(run_of(0, deaths=2), run_of(1, deaths=3), run_of(2, deaths=3))
    suspects, tried = knowing(runs), []
    for _ in range(6):
        turn = suspects.turn(runs, slots=9, now_ms=0)
        assert turn.only is not None
        tried.append(turn.only)
        suspects.begun(turn, runs)
    assert tried == 2 * [tasks(0), tasks(1), tasks(2)]


def test_what_ran_and_needs_no_trial_comes_back_before_all_trials() -> None:
    runs = table(running(0, 2, began_ms=TRIAL_MS), running(1, 0, began_ms=0), run_of(2, deaths=2), run_of(3))
    suspects = knowing(runs)
    for task in (A0, A1):
        lost = suspects.lost(runs, death_of(runs[task]), now_ms=TRIAL_MS + 1)
        runs[task] = replaced(lost, state=RunState.WAITING, began_ms=None)
    assert runs[A1].deaths == 0, "it was not on trial"
    assert suspects.turn(runs, slots=9, now_ms=HOUR_MS) == Turn(tasks(0, 2), None)
    runs[A1] = running(1, 0, began_ms=HOUR_MS)
    assert suspects.turn(runs, slots=9, now_ms=HOUR_MS + TRIAL_MS) == Turn(tasks(0), tasks(2))


def test_a_death_during_a_trial_counts_for_the_one_on_trial_alone() -> None:
    now = TRIAL_MS + 1_000
    runs = table(
        running(0, 0, began_ms=0), running(1, 2, TRIAL_MS, alone=True, died_alone=1), running(2, 0, began_ms=0)
    )
    suspects = knowing(runs)
    after = {}
    for task in (A2, A1, A0):
        after[task] = runs[task] = suspects.lost(runs, death_of(runs[task]), now_ms=now)
        runs[task] = replaced(runs[task], state=RunState.WAITING, began_ms=None)
    assert {task: run.spark_deaths for task, run in after.items()} == {A0: 0, A1: 3, A2: 0}
    assert [task for task, run in after.items() if suspects.condemns(run)] == [A1]


def test_a_death_while_nobody_is_on_trial_counts_for_all_and_fails_nobody() -> None:
    runs = table(running(0, 1, began_ms=0), running(1, 1, began_ms=0), running(3, 0, began_ms=0))
    suspects = knowing(runs)
    after = [suspects.lost(runs, death_of(run), now_ms=5) for run in runs.values()]
    assert [run.spark_deaths for run in after] == [2, 2, 1]
    together = [replaced(run, spark_deaths=99) for run in after]
    assert not any(suspects.condemns(run) for run in together)


def test_spark_that_ends_before_a_task_has_begun_says_nothing_of_the_task() -> None:
    runs = table(run_of(0, state=RunState.STARTED))
    assert Suspects(1, ME).lost(runs, death_of(runs[A0]), now_ms=0).spark_deaths == 0


@pytest.mark.parametrize("query", [{}, {"handle": "h", "detached": True}], ids=["attached", "detached"])
def test_on_a_server_a_task_must_have_been_alone_twice(query: dict[str, Any]) -> None:
    """People restart servers."""
    run = replaced(running(0, 2, began_ms=0, alone=True), runs_on="sc://h", **query)
    suspects = knowing(table(run))
    once = suspects.lost(table(run), death_of(run, -1), now_ms=5)
    assert not suspects.condemns(once)
    again = replaced(once, began_ms=10)
    assert suspects.condemns(suspects.lost(table(again), death_of(again, -2), now_ms=15))
    among_others = suspects.lost(table(replaced(again, alone=False)), death_of(again, -3), now_ms=15)
    assert not suspects.condemns(among_others), "it was not alone both times"


@pytest.mark.parametrize("kind", TaskKind)
def test_a_death_is_forgiven_when_the_task_has_run_well_for_a_minute(kind: TaskKind) -> None:
    runs = table(running(0, 1, began_ms=0, kind=kind), running(1, 0, began_ms=0))
    suspects = knowing(runs)
    assert not suspects.acquitted(runs, now_ms=5)
    assert suspects.due_ms(now_ms=5) == TRIAL_MS
    assert not suspects.acquitted(runs, now_ms=TRIAL_MS - 1)
    assert [run.deaths for run in suspects.acquitted(runs, now_ms=TRIAL_MS)] == [0]


@pytest.mark.parametrize("detached", [True, False])
def test_while_its_server_is_silent_a_task_stands_no_trial(detached: bool) -> None:
    """Who has ended it would be acquitted if it takes a minute to start again. What uses another server goes on."""
    away_ms, back_ms = 5_000, HOUR_MS
    there = running(0, 1, began_ms=0, kind=TaskKind.STREAMING, detached=detached)
    runs = table(there, running(1, 1, began_ms=0, detached=not detached))
    suspects = knowing(runs)
    suspects.time.servers_are(silent=True, detached=detached, now_ms=away_ms)
    assert [run.task for run in suspects.acquitted(runs, now_ms=TRIAL_MS)] == [A1]
    assert not suspects.acquitted(runs, now_ms=back_ms)
    suspects.time.servers_are(silent=False, detached=detached, now_ms=back_ms)
    assert not suspects.acquitted(runs, now_ms=back_ms + TRIAL_MS - 1), "what is lost there is still to be heard"
    assert [run.task for run in suspects.acquitted(runs, now_ms=back_ms + TRIAL_MS)] == [A0]


def test_what_hangs_after_the_end_of_its_spark_stands_no_trial_and_keeps_nobody_waiting() -> None:
    """However long its code takes to notice."""
    hangs = running(0, 2, began_ms=0, alone=True, died_alone=1)
    runs = table(hangs, run_of(1, deaths=2))
    suspects = knowing(runs)
    suspects.spark_ended(runs, SparkEnded(spark=1, tasks=tasks(0)), now_ms=5)
    assert suspects.turn(runs, slots=9, now_ms=10) == Turn(tasks(), tasks(1)), "it can't end another Spark"
    assert not suspects.acquitted(runs, now_ms=HOUR_MS)
    lost = suspects.lost(runs, death_of(hangs), now_ms=HOUR_MS)
    assert suspects.condemns(lost)


def test_when_it_runs_again_it_stands_its_trial() -> None:
    runs = table(running(0, 1, began_ms=0), running(1, 0, began_ms=0))
    suspects = knowing(runs)
    suspects.spark_ended(runs, SparkEnded(spark=1, tasks=tasks(0)), now_ms=5)
    runs[A0] = running(0, 2, began_ms=HOUR_MS)
    assert [run.task for run in suspects.acquitted(runs, now_ms=HOUR_MS + TRIAL_MS)] == [A0]


def test_beside_what_hangs_after_the_end_of_another_spark_a_batch_task_is_alone() -> None:
    runs = table(running(0, 0, began_ms=0), running(1, 1, began_ms=10))
    suspects = knowing(runs)
    suspects.spark_ended(runs, SparkEnded(spark=1, tasks=tasks(0)), now_ms=5)
    assert not suspects.acquitted(runs, now_ms=HOUR_MS), "it would never come further"


def test_a_batch_task_that_ends_spark_late_is_tried_for_longer_each_time() -> None:
    trials_ms, run = [], running(0, 1, began_ms=0)
    for _ in range(7):
        runs = table(run, running(1, 0, began_ms=0))
        suspects = knowing(runs)
        acquitted = ((ms, suspects.acquitted(runs, now_ms=ms)) for ms in range(0, HOUR_MS, TRIAL_MS))
        stood_ms, (run,) = next((ms, stood) for ms, stood in acquitted if stood)
        trials_ms.append(stood_ms // TRIAL_MS)
        run = first_run(run.work, Epoch(2), run.status(TaskState.RUNNING, ME), now_ms=0, wall_ms=0)
        run = replaced(run, spark_deaths=1, state=RunState.STARTED, began_ms=0)
    assert trials_ms == [1, 2, 4, 8, 16, 32, 32], "also on its next worker"


def test_the_longer_trial_of_one_task_makes_no_other_task_wait_for_its_acquittal() -> None:
    """If it was tried alone, it would fail for what those do that begin after its trial."""
    runs = table(running(0, 1, began_ms=0, acquitted=3), run_of(1, deaths=1))
    suspects = knowing(runs)
    assert not suspects.acquitted(runs, now_ms=TRIAL_MS)
    runs[A1] = running(1, 1, began_ms=2 * TRIAL_MS)
    assert [run.task for run in suspects.acquitted(runs, now_ms=3 * TRIAL_MS)] == [A1]


def test_moves_stops_and_other_ends_make_no_trial_longer() -> None:
    """Nothing else begins during a trial."""
    moved = running(0, 2, began_ms=0, attempt=99)
    runs = table(moved, running(1, 0, began_ms=0))
    assert knowing(runs).acquitted(runs, now_ms=TRIAL_MS)


def test_what_it_was_acquitted_of_counts_no_more_when_people_have_it_tried_again() -> None:
    assert running(0, 2, began_ms=0, acquitted=5).with_all_retries().acquitted == 0


def test_a_long_error_of_spark_does_not_push_out_what_follows_from_it() -> None:
    run = running(0, 2, began_ms=0, alone=True, died_alone=1)
    runs = table(run)
    death = death_of(run, error="OutOfMemoryError: " + 999 * "x")
    error = knowing(runs).lost(runs, death, now_ms=5).error
    assert error is not None
    assert error.message.startswith("OutOfMemoryError: xxx")
    assert "…; Spark has ended 3 times while this task ran, so the task counts as the reason" in error.message
    assert error.message.endswith("(max_spark_deaths=3)")


def test_a_batch_task_without_others_is_not_acquitted_by_time() -> None:
    runs = table(running(0, 2, began_ms=0, alone=True, died_alone=1))
    suspects = knowing(runs)
    assert not suspects.acquitted(runs, now_ms=HOUR_MS)
    assert suspects.turn(runs, slots=2, now_ms=HOUR_MS) == Turn(), "but others may begin"
    assert suspects.condemns(suspects.lost(runs, death_of(runs[A0]), now_ms=HOUR_MS))


def test_on_a_server_a_batch_task_is_acquitted_though_its_worker_runs_nothing_else() -> None:
    """Otherwise each end of the server that another worker's task causes would count for it."""
    runs = table(running(0, 2, began_ms=0, alone=True, runs_on="sc://h"))
    assert [run.deaths for run in knowing(runs).acquitted(runs, now_ms=TRIAL_MS)] == [0]


def test_an_end_of_spark_is_forgotten_when_nobody_is_left_to_tell_of_it() -> None:
    """A worker may live for months."""
    slow, runs = running(0, 0, began_ms=0), table()
    runs[A0] = slow
    suspects = Suspects(99, ME)
    for spark in range(1, 50):
        now = spark * HOUR_MS
        runs[A1] = running(1, 0, began_ms=now, attempt=spark)
        suspects.lost(runs, death_of(runs[A1], spark), now_ms=now)
        if spark == 9:
            assert suspects.lost(runs, death_of(slow, 1), now_ms=now + 1_000).deaths == 1, "it took long to end"
            assert not suspects.holds(now + 1_000), "that was no new end"
            del runs[A0]
    assert len(suspects.accusations) == 1


def test_each_death_is_followed_by_a_longer_pause_and_a_calm_time_by_a_short_one() -> None:
    runs = table(running(0, 0, began_ms=0))
    suspects, pauses, now = Suspects(99, ME), list[int](), 0
    for spark in range(9):
        for _ in range(2):  # each of its tasks tells of it
            suspects.lost(runs, death_of(runs[A0], spark), now_ms=now)
        until = suspects.due_ms(now_ms=now)
        assert until is not None
        assert suspects.holds(until - 1)
        assert not suspects.holds(until)
        pauses.append(until - now)
        now = until
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    now += 600_000
    suspects.lost(runs, death_of(runs[A0], 10), now_ms=now)
    assert suspects.due_ms(now_ms=now) == now + 1_000
