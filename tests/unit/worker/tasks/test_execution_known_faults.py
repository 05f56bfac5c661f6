"""A task that meets a known fault of Spark: it is tried again, and nobody pays, unless it meets the fault for ever."""

from __future__ import annotations

from itertools import pairwise

from execution_script import A0, A1, Script, words, written

from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import SparkFaltered, TaskProgressed
from airflow_provider.state.records import TaskFailure, TaskKind, TaskState
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.commands import ArmTimer, Command, TellOfTask
from airflow_provider.worker.tasks.events import EndWritten

NULL = "Spark has null metrics"
FULL = "the server has no capacity left for this task: limit"


def faltered(script: Script, task: TaskId = A0) -> list[Command]:
    return script.feed(SparkFaltered, task=task, error=NULL)


def falters(script: Script, times: int) -> list[Command]:
    """It does so in each of so many attempts in a row; the commands after the last one."""
    done: list[Command] = []
    for number in range(times):
        if number:
            script.wait(60_000)
            script.begin(A0)
        done = faltered(script)
    return done


def test_it_is_tried_again_soon_and_uses_no_retry() -> None:
    script = Script(retries=0).running(A0)
    done = faltered(script)
    waits = written(done, TaskState.PENDING)
    assert (waits.failures, waits.conflicts, waits.failed_on) == (0, 0, ())
    assert waits.error == TaskFailure.of(f"a known fault of Spark, which passes: {NULL}")
    assert ArmTimer(at_ms=script.now + 1_000) in done
    assert words(script.wait(1_000)) == ["start a:0 #2"]
    script.begin(A0)
    assert ArmTimer(at_ms=script.now + 2_000) in faltered(script)


def test_its_worker_says_why_it_runs_again() -> None:
    script = Script(retries=0).running(A0)
    done = script.feed(SparkFaltered, task=A0, error="no metrics\nby way of Java", traceback="a traceback")
    assert [command.message for command in done if isinstance(command, TellOfTask)] == [
        "task a:0 is to run again: a known fault of Spark, which passes: no metrics; by way of Java"
    ]


def test_what_it_meets_again_and_again_is_its_own_fault() -> None:
    script = Script(retries=0).running(A0)
    assert written(falters(script, 10), TaskState.PENDING).failures == 0
    script.wait(60_000)
    script.begin(A0)
    failed = written(faltered(script), TaskState.FAILED)
    assert (failed.failures, failed.error) == (1, TaskFailure.of(NULL))


def test_a_task_that_takes_hours_to_meet_it_does_not_do_so_for_ever() -> None:
    """As one that cancels its own Spark jobs by way of the JVM: it begins anew each time."""
    script = Script(retries=0).running(A0)
    for _ in range(10):
        assert written(faltered(script), TaskState.PENDING).failures == 0
        script.wait(60_000)
        script.begin(A0)
        script.wait(4 * 3_600_000)
    assert written(faltered(script), TaskState.FAILED).failures == 1


def test_what_it_has_met_does_not_count_in_its_next_run() -> None:
    script = Script(retries=0).running(A0)
    for run_key in ("second", "third"):
        assert written(falters(script, 6), TaskState.PENDING).failures == 0
        script.wait(60_000)
        script.begin(A0)
        script.finish(A0)
        script.answer(EndWritten, A0)
        script.define(run_key=run_key)
        script.running(A0)


def test_a_streams_faults_that_are_far_apart_never_add_up() -> None:
    script = Script(retries=0, kind=TaskKind.STREAMING).running(A0)
    for _ in range(30):
        assert written(faltered(script), TaskState.PENDING).failures == 0
        script.wait(1_000)
        script.begin(A0)
        script.wait(600_000)


def test_a_stream_that_moves_on_is_not_to_blame_however_often_it_meets_one() -> None:
    """As one whose worker is killed every minute: each time it repeats a batch, and meets the same fault."""
    script = Script(retries=0, kind=TaskKind.STREAMING).running(A0)
    for number in range(30):
        script.feed(TaskProgressed, task=A0, progress=QueryProgress(batch=number, rows_per_second=1.0))
        for _ in range(2):
            assert written(faltered(script), TaskState.PENDING).failures == 0
            script.wait(2_000)
            script.begin(A0)


def test_a_stream_that_meets_it_at_the_same_batch_again_and_again_is_to_blame() -> None:
    script = Script(retries=0, kind=TaskKind.STREAMING).running(A0)
    script.feed(TaskProgressed, task=A0, progress=QueryProgress(batch=7, rows_per_second=1.0))
    falters(script, 10)
    script.wait(60_000)
    script.begin(A0)
    assert written(faltered(script), TaskState.FAILED).failures == 1


def full(script: Script, task: TaskId = A0) -> list[Command]:
    return script.feed(SparkFaltered, task=task, error=FULL, lasts=True)


def pause_after(done: list[Command], script: Script) -> int:
    return min(command.at_ms for command in done if isinstance(command, ArmTimer)) - script.now


def test_for_a_spark_without_capacity_it_waits_as_long_as_it_takes_and_no_retry_is_used() -> None:
    script = Script(retries=0)
    script.give(A0)
    pauses: list[int] = []
    said: list[str] = []
    for number in range(100):
        if number:
            assert words(script.wait(pauses[-1])) == [f"start a:0 #{number + 1}"]
        done = full(script)
        waits = written(done, TaskState.PENDING)
        assert (waits.failures, waits.conflicts, waits.failed_on) == (0, 0, ())
        assert waits.error == TaskFailure.of(f"it waits until its Spark has room for it: {FULL}")
        pauses.append(pause_after(done, script))
        said += [command.message for command in done if isinstance(command, TellOfTask)]
    assert 1_000 <= pauses[0] <= 2_000
    assert all(before < after for before, after in pairwise(pauses[:5]))
    assert all(30_000 <= pause <= 60_000 for pause in pauses[5:])
    assert said == [f"task a:0 waits until its Spark has room for it: {FULL}"] * 10
    script.wait(pauses[-1])
    script.begin(A0)
    assert written(faltered(script), TaskState.PENDING).failures == 0, "that it has waited is no known fault"


def test_all_that_wait_for_room_do_not_come_back_together() -> None:
    tasks = [TaskId("a", index) for index in range(100)]
    script = Script(retries=0, slots=100, tasks=100)
    script.give(*tasks)
    for task in tasks:
        full(script, task)
    starts = [len(words(script.wait(100))) for _ in range(20)]
    assert sum(starts) == 100
    assert max(starts) < 30


def test_each_task_is_counted_by_itself() -> None:
    script = Script(retries=0, slots=2).running(A0, A1)
    for number in range(6):
        for task in (A0, A1):
            if number:
                script.begin(task)
            assert written(faltered(script, task), TaskState.PENDING).failures == 0
        script.wait(60_000)
