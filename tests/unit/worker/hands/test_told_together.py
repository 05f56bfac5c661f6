"""What happens to many tasks of a worker at once is one line of its log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from execution_script import ME, Script
from executor_bench import Bench, bench
from turned_clock import time_passes
from waiting import eventually

from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import QueryAdopted, QueryUnreachable, SparkFaltered
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands.told_together import TELL_AFTER_MS, ToldTogether
from airflow_provider.worker.reporting.narrator import narrated
from airflow_provider.worker.tasks.commands import Command, TellOfTask
from airflow_provider.worker.tasks.runs.liveness import LEAST_PATIENCE_MS

TASKS = [TaskId("a", index) for index in range(100)]
FIRST = "tasks a:0, a:1, a:2, a:3, a:4 and 95 more"
UNSURE = "still be running (see cospark jobs orphans): sc://h: nobody answers"


async def streaming(worker: Bench) -> None:
    await worker.submit(tasks=len(TASKS), kind=TaskKind.STREAMING)
    worker.take(*TASKS)
    await worker.runs(*TASKS)


def from_warning_on(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.turned_clock
async def test_the_end_of_a_spark_is_one_line_for_all_that_ran_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with bench(slots=len(TASKS)) as worker:
        with narrated(worker.topics, ME, already_narrated=Epoch(0)):
            await streaming(worker)
            for task in TASKS:  # each notices it by itself
                worker.runner.lose(task)
                await time_passes(TELL_AFTER_MS / 1000 / (len(TASKS) + 1))
            await worker.runs(*TASKS)
            assert {worker.told(task).spark_deaths for task in TASKS} == {1}
            await time_passes(TELL_AFTER_MS / 1000)
            assert from_warning_on(caplog) == [f"{FIRST} are to run again: exit code -9"]
            worker.runner.lose(*TASKS, spark=2)
            await time_passes(TELL_AFTER_MS / 1000 + 1)
            assert len(from_warning_on(caplog)) == 2, "one for each end"


@pytest.mark.turned_clock
async def test_a_source_that_gives_nothing_is_one_line_for_all_streams_that_read_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with bench(slots=len(TASKS)) as worker:
        await streaming(worker)
        for task in TASKS:
            worker.runner.streams(task)
        await time_passes(LEAST_PATIENCE_MS / 1000 + 1)
        assert {worker.told(task).stalled_since_ms is None for task in TASKS} == {False}
        await time_passes(TELL_AFTER_MS / 1000)
        why = "no batch has ended for 10 min, and 10 min were expected at most"
        assert from_warning_on(caplog) == [f"{FIRST} are stalled: {why}"]
        for task in TASKS:
            worker.runner.progress(task, QueryProgress(batch=8, rows_per_second=1.0, batch_ms=2_000))
        await time_passes(TELL_AFTER_MS / 1000)
        assert f"{FIRST} are no longer stalled" in caplog.messages


async def test_what_was_not_told_yet_is_told_before_the_worker_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with bench(slots=2) as worker:
        await worker.submit(tasks=2)
        worker.take(*TASKS[:2])
        await worker.runs(*TASKS[:2])
        worker.runner.lose(*TASKS[:2])
        await eventually(lambda: worker.state(TASKS[1]) is TaskState.PENDING)
    assert from_warning_on(caplog) == ["tasks a:0, a:1 are to run again: exit code -9"]


# ---- what the machine says of each task


class Told:
    """:ivar calls: those that tell"""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.together = ToldTogether(lambda _ms, call: self.calls.append(call))

    def lines(self, done: Sequence[Command], caplog: pytest.LogCaptureFixture) -> list[str]:
        for command in done:
            if isinstance(command, TellOfTask):
                self.together.add(command)
        with caplog.at_level(logging.INFO):
            while self.calls:
                self.calls.pop(0)()
        return caplog.messages


def watching() -> Script:
    """A worker that was given tasks of which it is not known whether they still run."""
    script = Script(kind=TaskKind.STREAMING, slots=len(TASKS), tasks=len(TASKS))
    earlier = Script(kind=TaskKind.STREAMING, slots=len(TASKS), tasks=len(TASKS))
    earlier.give(*TASKS)
    running = {}
    for task in TASKS:
        run = replaced(earlier.execution.runs[task], handle={"session": "s"}, started_at_ms=1)
        running[task] = run.status(TaskState.RUNNING, ME)
    script.status = replace(script.status, tasks=running)
    script.read(script.jobs)
    script.give(*TASKS, epoch=2)
    return script


def test_a_server_that_does_not_answer_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    script = watching()
    done = [each for task in TASKS for each in script.feed(QueryUnreachable, task=task, why="sc://h: nobody answers")]
    assert Told().lines(done, caplog) == [f"{FIRST} wait, because their earlier queries may {UNSURE}"]


def test_a_server_on_which_nothing_can_be_stopped_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    script = watching()
    script.read(JobsSnapshot())
    done = [each for task in TASKS for each in script.feed(QueryUnreachable, task=task, why="sc://h: nobody answers")]
    may = "may still be running: sc://h: nobody answers"
    assert Told().lines(done, caplog) == [f"{FIRST} were told to stop, and {may}"]


def test_queries_that_are_watched_from_here_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    script = watching()
    done = [each for task in TASKS for each in script.feed(QueryAdopted, task=task, handle={"session": "t"})]
    assert Told().lines(done, caplog) == [f"{FIRST} keep running, and are watched from here"]


def test_where_each_has_a_reason_of_its_own_the_first_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(kind=TaskKind.STREAMING, slots=2).running(*TASKS[:2])
    done = [each for task in TASKS[:2] for each in script.feed(SparkFaltered, task=task, error=f"batch {task.index}")]
    why = "a known fault of Spark, which passes: batch 0"
    assert Told().lines(done, caplog) == [f"tasks a:0, a:1 are to run again; a:0: {why}"]


def test_other_incidents_are_other_lines(caplog: pytest.LogCaptureFixture) -> None:
    one, many = "is to run again", "are to run again"
    done = [TellOfTask(label=f"a:{n}", one=one, many=many, why="gone", incident=f"{n // 2}") for n in range(3)]
    lines = ["tasks a:0, a:1 are to run again: gone", "task a:2 is to run again: gone"]
    assert Told().lines(done, caplog) == lines
