"""A task that was alone on trial when Spark ended is tried again with nothing beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from execution_script import A0, A1, A2, Script, words, written

from airflow_provider.spark.runner import SparkEnded, SparkLost, WarmUpLost
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.commands import Command
from airflow_provider.worker.tasks.events import Drained
from airflow_provider.worker.tasks.runs.learners import LearnerState
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.spark_deaths.trials import TRIAL_MS

GONE = "gone"
ASIDE = "Spark or its process has ended under another task, which is tried alone"


class Worker(Script):
    """A0 has run for long when A1 is alone on trial, and then Spark ends under both."""

    def __init__(self, **definition: Any) -> None:
        usual: dict[str, Any] = {"kind": TaskKind.STREAMING, "retries": 0}
        super().__init__(**usual | definition)
        self.running(A0)
        self.wait(TRIAL_MS)
        self.runs_there(A1, kind=TaskKind.STREAMING, state=TaskState.STOPPED, spark_deaths=2)
        self.give(A1, epoch=2)
        self.begin(A1)
        self.wait(30_000)

    def spark_ends(self, *tasks: TaskId, spark: int = 1, hangs: TaskId | None = None) -> list[Command]:
        """They hear of it, one after the other; then its pause is over.

        :param hangs: hears of it later
        """
        done = [each for task in tasks for each in self.feed(SparkLost, task=task, spark=spark, error=GONE)]
        if hangs is not None:
            self.feed(SparkEnded, spark=spark, tasks=frozenset({hangs}))
        return [*done, *self.wait(2_000)]

    def hears(self, task: TaskId, spark: int = 1) -> list[Command]:
        """Its code has noticed at last."""
        return self.feed(SparkLost, task=task, spark=spark, error=GONE)

    def runs(self, *tasks: TaskId) -> bool:
        return {task for task, run in self.execution.runs.items() if run.state.runs} == set(tasks)


def test_nobody_fails_for_what_a_task_beside_it_may_have_done_and_it_comes_back_first() -> None:
    worker = Worker()
    worker.spark_ends(A0, A1)
    assert worker.runs(A1), "A0 waits"
    assert written(worker.begin(A1), TaskState.RUNNING).alone
    worker.wait(TRIAL_MS - 1)
    assert worker.runs(A1)
    assert written(worker.wait(1), TaskState.RUNNING).died_alone == 0
    assert worker.runs(A0, A1)


def test_who_ends_spark_with_nothing_beside_it_is_failed() -> None:
    worker = Worker()
    worker.spark_ends(A0, A1)
    worker.begin(A1)
    assert written(worker.spark_ends(A1, spark=2), TaskState.FAILED).task == A1
    assert worker.runs(A0)


def test_what_has_begun_meanwhile_stops_first_and_then_comes_back_before_other_suspects() -> None:
    """The code of A1 takes long to notice that its Spark has ended."""
    worker = Worker()
    worker.spark_ends(A0, hangs=A1)
    worker.begin(A0)
    worker.runs_there(A2, kind=TaskKind.STREAMING, state=TaskState.STOPPED, spark_deaths=2)
    worker.give(A2, epoch=3)
    assert f"stop a:0: {ASIDE}" in words(worker.hears(A1))
    assert worker.runs(A0)
    assert "start a:1 #3" in words(worker.stopped(A0))
    worker.begin(A1)
    worker.wait(TRIAL_MS)
    assert worker.runs(A0, A1)


def hopeless() -> Worker:
    """A0 runs beside A1, and does not stop."""
    worker = Worker()
    worker.spark_ends(A0, hangs=A1)
    worker.begin(A0)
    worker.hears(A1)
    return worker


def test_beside_what_does_not_stop_it_is_tried_after_a_minute_and_that_decides_nothing() -> None:
    worker = hopeless()
    worker.wait(TRIAL_MS - 1)
    assert worker.runs(A0)
    worker.wait(1)
    assert worker.runs(A0, A1)
    assert not written(worker.begin(A1), TaskState.RUNNING).alone
    assert written(worker.hears(A1, spark=2), TaskState.PENDING).died_alone == 2


def test_the_next_time_it_waits_for_twice_as_long() -> None:
    """Another task runs by then, and does not stop either."""
    worker = hopeless()
    worker.wait(TRIAL_MS)
    worker.begin(A1)
    worker.spark_ends(A0, spark=2, hangs=A1)
    worker.begin(A0)
    worker.hears(A1, spark=2)
    worker.wait(2 * TRIAL_MS - 1)
    assert worker.runs(A0)
    worker.wait(1)
    assert worker.runs(A0, A1)


def test_what_hangs_after_the_end_of_its_spark_can_not_end_the_next_one() -> None:
    """But it could end the process, so the record does not say that nothing is beside the task on trial."""
    worker = Worker()
    worker.spark_ends(A1, hangs=A0)
    worker.wait(TRIAL_MS)
    assert worker.runs(A0, A1)
    assert not written(worker.begin(A1), TaskState.RUNNING).alone
    assert written(worker.spark_ends(A1, spark=2), TaskState.FAILED).task == A1


def test_a_warm_up_is_beside_it_too_and_none_begins_while_it_waits() -> None:
    worker = Worker()
    worker.spark_ends(A0, hangs=A1)
    worker.learn(A2)
    worker.hears(A1)
    worker.stopped(A0)
    assert worker.runs()
    worker.wait(TRIAL_MS)
    assert not written(worker.begin(A1), TaskState.RUNNING).alone
    worker.hears(A1, spark=2)
    worker.feed(WarmUpLost, task=A2, spark=2)
    worker.wait(2_000)
    assert written(worker.begin(A1), TaskState.RUNNING).alone
    worker.wait(TRIAL_MS - 1)
    assert worker.learner(A2) is LearnerState.WAITING


def test_two_that_are_to_be_tried_alone_do_not_stop_each_other_for_ever() -> None:
    """A batch task that is alone is not acquitted by time, but before it makes room for the other one."""
    worker = Script()
    for task in (A0, A1):
        worker.runs_there(task, state=TaskState.STOPPED, spark_deaths=2, died_alone=1)
    assert f"start {A0} #2" in words(worker.give(A0, A1, epoch=2))
    worker.begin(A0)
    worker.wait(TRIAL_MS)
    done = worker.stopped(A0)
    assert written(done, TaskState.STOPPED).deaths == 0
    assert f"start {A1} #2" in words(done)
    worker.begin(A1)
    worker.wait(TRIAL_MS)
    assert worker.state(A0) is worker.state(A1) is RunState.STARTED


def test_while_there_is_no_slot_for_it_nothing_stops() -> None:
    """What had the slot would come back to none."""
    worker = Script(slots=1, kind=TaskKind.STREAMING)
    worker.running(A0)
    worker.runs_there(A1, kind=TaskKind.STREAMING, state=TaskState.STOPPED, spark_deaths=2, died_alone=1)
    worker.give(A1, epoch=2)
    worker.wait(2 * TRIAL_MS)
    assert (worker.state(A0), worker.state(A1)) == (RunState.STARTED, RunState.WAITING)


@pytest.mark.parametrize("end", [Script.fail, Script.conflict], ids=["fails", "meets another writer"])
def test_a_task_that_does_not_run_for_a_minute_for_other_reasons_has_the_others_stopped_once(
    end: Callable[[Script, TaskId], object],
) -> None:
    """Otherwise they would be stopped for each of its retries, however many there are."""
    worker = Worker(retries=9, retry_delay_ms=1_000)
    worker.spark_ends(A0, A1)
    worker.begin(A1)
    end(worker, A1)
    worker.begin(A0)
    worker.wait(TRIAL_MS)
    assert worker.runs(A0, A1)
    assert worker.execution.runs[A1].deaths == 3, "it is still suspected"


def test_a_worker_that_drains_stops_nothing_for_it() -> None:
    worker = Worker()
    worker.spark_ends(A0, hangs=A1)
    worker.feed(Drained)
    assert not any(ASIDE in said for said in words(worker.hears(A1)))
