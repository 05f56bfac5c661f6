"""A task that meets a known fault of Spark: it is tried again, and nobody pays, unless it meets the fault for ever."""

from __future__ import annotations

from execution_script import A0, A1, Script, words, written

from airflow_provider.state.records import TaskFailure, TaskKind, TaskState
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.commands import ArmTimer, Command, TellOfTask
from airflow_provider.worker.tasks.events import EndWritten, SparkFaltered

NULL = TaskFailure.of("Spark has null metrics")


def faltered(script: Script, task: TaskId = A0) -> list[Command]:
    return script.feed(SparkFaltered, task=task, failure=NULL)


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
    assert waits.error == TaskFailure.of(f"a known fault of Spark, which passes: {NULL.message}")
    assert ArmTimer(at_ms=script.now + 1_000) in done
    assert words(script.wait(1_000)) == ["start a:0 #2"]
    script.begin(A0)
    assert ArmTimer(at_ms=script.now + 2_000) in faltered(script)


def test_its_worker_says_why_it_runs_again() -> None:
    script = Script(retries=0).running(A0)
    done = script.feed(SparkFaltered, task=A0, failure=TaskFailure.of("no metrics\nby way of Java", "a traceback"))
    assert [command.message for command in done if isinstance(command, TellOfTask)] == [
        "task a:0 is to run again: a known fault of Spark, which passes: no metrics; by way of Java"
    ]


def test_what_it_meets_again_and_again_is_its_own_fault() -> None:
    script = Script(retries=0).running(A0)
    assert written(falters(script, 10), TaskState.PENDING).failures == 0
    script.wait(60_000)
    script.begin(A0)
    failed = written(faltered(script), TaskState.FAILED)
    assert (failed.failures, failed.error) == (1, NULL)


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


def test_each_task_is_counted_by_itself() -> None:
    script = Script(retries=0, slots=2).running(A0, A1)
    for number in range(6):
        for task in (A0, A1):
            if number:
                script.begin(task)
            assert written(faltered(script, task), TaskState.PENDING).failures == 0
        script.wait(60_000)
