"""A task that has failed waits a while for its move to a better place, and is tried again here if nobody moves it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution_script import A0, A1, A2, ME, OTHER, Script, words, written
from group_records import record_of

from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import SparkLost, TaskConflicted, TaskProgressed
from airflow_provider.state.blame.evidence import LATELY_MS
from airflow_provider.state.blame.tried_elsewhere import HERE_AFTER_MS, better_places
from airflow_provider.state.records import (
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.records.status_topic.failing import GOOD_MS
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import Command
from airflow_provider.worker.tasks.events import Event, TasksRevoked

BATCH = QueryProgress(batch=1, rows_per_second=1.0)


def beside_another(*, well: bool = True, **definition: Any) -> Script:
    """This worker has two tasks, and another one the third, which goes well there or has just started."""
    script = Script(**definition)
    assignment = {ME: frozenset({A0, A1}), OTHER: frozenset({A2})}
    workers = {
        name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=Epoch(1), slots=2) for name in assignment
    }
    script.status = replace(script.status, group=record_of(assignment, epoch=1), workers=workers)
    script.running(A0, A1)
    says(script, A2, progress=BATCH if well else None)
    return script


def says(script: Script, task: TaskId, **fields: Any) -> list[Command]:
    """The other worker says that this stream runs there."""
    return script.runs_there(task, **{"kind": TaskKind.STREAMING, **fields})


def test_it_waits_for_its_move_and_is_tried_here_if_nobody_moves_it() -> None:
    script = beside_another(retries=1)
    told = written(script.fail(A0), TaskState.PENDING)
    assert (told.failed_on, told.failures, told.retry_at_ms) == ((ME,), 1, None)
    assert words(script.wait(HERE_AFTER_MS - 1)) == []
    assert words(script.wait(1)) == ["start a:0 #2"]


def test_it_leaves_without_another_attempt_here() -> None:
    script = beside_another(retries=1)
    script.fail(A0)
    assert words(script.feed(TasksRevoked, tasks=frozenset({A0}), reason="revoked")) == ["released a:0"]


@pytest.mark.parametrize("delay_ms", [500, 60_000])
def test_wherever_it_goes_the_delay_of_its_job_is_kept(delay_ms: int) -> None:
    script = beside_another(retries=1, retry_delay_ms=delay_ms)
    told = written(script.fail(A0), TaskState.PENDING)
    assert told.retry_at_ms == script.now + script.wall_ahead + delay_ms
    assert words(script.wait(max(delay_ms, HERE_AFTER_MS) - 1)) == []
    assert words(script.wait(1)) == ["start a:0 #2"]


def test_without_a_better_place_it_is_tried_here_at_once() -> None:
    script = beside_another(well=False, retries=1)
    assert words(script.fail(A0)) == ["write a:0 pending", "start a:0 #2"]


@pytest.mark.parametrize("retryable", [True, False])
def test_where_nothing_goes_well_it_has_not_failed_for_good_before_it_has_failed_elsewhere(retryable: bool) -> None:
    """Also if another try here would be useless: this worker may lack its module."""
    script = beside_another(well=False)
    told = written(script.fail(A0, retryable=retryable), TaskState.PENDING)
    assert told.failures == 1
    script.wait(HERE_AFTER_MS)
    script.begin(A0)
    assert written(script.fail(A0, retryable=retryable), TaskState.FAILED).failures == 2


def test_where_something_goes_well_it_has_failed_for_good() -> None:
    script = beside_another()
    script.feed(TaskProgressed, task=A1, progress=BATCH)
    says(script, A1, worker=ME, progress=BATCH)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


def test_alone_in_its_group_it_has_failed_for_good() -> None:
    script = Script().running(A0)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


def test_a_task_that_goes_well_here_does_not_pay_for_a_failure_elsewhere() -> None:
    script = Script(retries=1)
    work = script.jobs.work_of(A0)
    assert work is not None
    script.say(
        TaskStatus(
            task=A0,
            state=TaskState.PENDING,
            epoch=Epoch(0),
            worker=OTHER,
            run_key="r",
            fingerprint=work.fingerprint,
            failures=1,
            failed_on=(OTHER,),
        )
    )
    script.running(A0)
    assert script.execution.runs[A0].counted_failures == 1
    script.feed(TaskProgressed, task=A0, progress=BATCH)
    assert (script.execution.runs[A0].counted_failures, script.execution.runs[A0].failed_on) == (0, (OTHER,))


def test_after_a_long_good_time_it_is_unknown_again_who_is_to_blame() -> None:
    script = beside_another(retries=5)
    script.execution.runs[A0] = replaced(script.execution.runs[A0], failed_on=(OTHER,))
    script.wait(LATELY_MS)
    assert written(script.fail(A0), TaskState.PENDING).failed_on == (ME,)


def test_a_worker_on_which_fails_what_goes_well_elsewhere_starts_nothing_more() -> None:
    script = beside_another(retries=5)
    for task in (A0, A1):
        script.fail(task)
    says(script, A0, failed_on=(ME,), progress=BATCH)
    assert script.execution.blamed == ""
    says(script, A1, failed_on=(ME,), progress=BATCH)
    assert script.execution.blamed == "tasks fail here that go well elsewhere: a:0, a:1; the last one by boom"
    assert not script.execution.may_begin


def test_a_last_try_that_has_gone_well_was_not_the_last_one() -> None:
    """Nobody has moved the stream, and here it works again."""
    script = beside_another(well=False, kind=TaskKind.STREAMING)
    assert written(script.fail(A0, retryable=False), TaskState.PENDING).last_try
    script.wait(HERE_AFTER_MS)
    script.begin(A0)
    script.wait(GOOD_MS)
    assert not written(script.fail(A0), TaskState.PENDING).last_try


def unheard(script: Script, *, for_ms: int = 0) -> None:
    """The other worker has not said anything yet since the round in which it came."""
    assert script.status.group is not None
    then = replace(script.status.group, at_ms=script.now + script.wall_ahead - for_ms)
    script.status = replace(script.status, group=then, workers={})
    script.read(script.jobs)


def test_nothing_fails_for_good_while_another_worker_has_just_come() -> None:
    script = beside_another(well=False)
    unheard(script)
    assert written(script.fail(A0), TaskState.PENDING).last_try
    assert words(script.wait(HERE_AFTER_MS)) == ["start a:0 #2"]
    script.begin(A0)
    assert written(script.fail(A0), TaskState.FAILED).failures == 2


def test_a_worker_that_never_says_anything_is_not_waited_for() -> None:
    """As Java Connect's workers."""
    script = beside_another(well=False)
    unheard(script, for_ms=HERE_AFTER_MS)
    assert not written(script.fail(A0), TaskState.FAILED).last_try


def test_a_worker_that_is_alone_waits_for_nobody() -> None:
    script = Script()
    script.status = replace(script.status, group=record_of({ME: frozenset({A0})}, at_ms=script.now + script.wall_ahead))
    script.running(A0)
    assert not written(script.fail(A0), TaskState.FAILED).last_try


class Looked(dict[TaskId, TaskStatus]):
    """Records of tasks that count how often somebody looks at all of them."""

    times = 0

    def values(self) -> Any:
        self.times += 1
        return super().values()


def test_when_many_tasks_fail_nobody_looks_at_all_tasks_for_each_of_them() -> None:
    many = [TaskId("a", index) for index in range(100)]
    script = beside_another(tasks=100, slots=100, retries=5)
    script.running(*many[3:])
    looked = Looked(script.status.tasks)
    script.status = replace(script.status, tasks=looked)
    script.read(script.jobs)
    looked.times = 0
    for task in (A0, A1, *many[3:]):
        script.fail(task)
    assert looked.times < 5


@pytest.mark.parametrize(
    ("end", "fields"),
    [
        (TaskConflicted, {"error": "race"}),
        (SparkLost, {"error": "gone", "spark": 1}),
    ],
)
def test_what_has_not_failed_the_last_time_stays_where_it_is(end: type[Event], fields: dict[str, Any]) -> None:
    """Another worker would be kept waiting by the same writer, or lose its Spark, too."""
    script = beside_another(retries=5)
    script.fail(A0)
    script.wait(HERE_AFTER_MS)
    script.begin(A0)
    told = written(script.feed(end, task=A0, **fields), TaskState.PENDING)
    assert (told.failures, told.failed_on) == (1, ())
    script.say(told)
    assert better_places(script.jobs, script.status, wall_ms=script.now + script.wall_ahead) == {}


def test_a_conflict_elsewhere_says_nothing_of_where_it_has_failed() -> None:
    script = beside_another(retries=5)
    script.execution.runs[A0] = replaced(script.execution.runs[A0], failures=1, failed_on=(OTHER,))
    assert written(script.conflict(A0), TaskState.PENDING).failed_on == (OTHER,)
