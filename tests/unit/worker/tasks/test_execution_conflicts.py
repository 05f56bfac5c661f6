"""A task whose checkpoint or table another writer uses: it waits, and no retry is used."""

from __future__ import annotations

from execution_script import A0, OTHER, Script, words, written

from airflow_provider.spark.runner import WarmUpConflicted
from airflow_provider.state.records import TaskFailure, TaskKind, TaskState, TaskStatus
from airflow_provider.values.model import Epoch
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import ArmTimer, Inform, StartAttempt, TellOfTask
from airflow_provider.worker.tasks.runs.learners import LearnerState
from airflow_provider.worker.tasks.runs.retry_pauses import conflict_pause_ms, doubling_ms

RACE = "it waits for another writer, which has used its checkpoint or table"


def test_a_pause_doubles_up_to_its_limit_however_often() -> None:
    assert [conflict_pause_ms(conflicts) // 1_000 for conflicts in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert conflict_pause_ms(2**52) == 60_000
    assert doubling_ms(300_000, 1, 60_000) == 60_000


def test_a_task_in_conflict_waits_and_uses_no_retry() -> None:
    script = Script(retries=0).running(A0)
    script.now += 5_000
    done = script.conflict(A0)
    waits = written(done, TaskState.PENDING)
    assert (waits.failures, waits.conflicts, waits.error) == (0, 1, TaskFailure.of(f"{RACE}: race"))
    assert ArmTimer(at_ms=script.now + 1_000) in done
    assert words(script.wait(999)) == []
    assert words(script.wait(1)) == ["start a:0 #2"]
    script.begin(A0)
    done = script.conflict(A0)
    assert ArmTimer(at_ms=script.now + 2_000) in done
    assert written(done, TaskState.PENDING).conflicts == 2
    assert words(script.wait(2_000)) == ["start a:0 #3"]


def conflicts(script: Script, number: int) -> list[str]:
    """So many conflicts in a row; the warnings of all of them."""
    warned = []
    for _ in range(number):
        script.begin(A0)
        warned += [command.message for command in script.conflict(A0) if isinstance(command, TellOfTask)]
        assert any(isinstance(command, StartAttempt) for command in script.wait(60_000))
    return warned


def test_a_conflict_that_lasts_is_warned_of_now_and_then_and_never_fails_the_task() -> None:
    script = Script(retries=0)
    script.give(A0)
    assert conflicts(script, 11) == []
    warned = conflicts(script, 20)
    assert warned == [f"task a:0 {RACE.removeprefix('it ')} for {minutes} min: race" for minutes in (19, 29)]


def test_the_tasks_next_worker_waits_on_and_counts_on() -> None:
    script = Script()
    said = TaskStatus(
        task=A0,
        state=TaskState.STOPPED,
        epoch=Epoch(0),
        worker=OTHER,
        run_key="r",
        fingerprint=script.jobs.plans["a"].fingerprints[0],
        attempt=8,
        conflicts=7,
        conflict_since_ms=script.now,
        retry_at_ms=script.now + script.wall_ahead + 3_600_000,
    )
    script.say(said)
    assert words(script.give(A0)) == []
    assert words(script.wait(59_999)) == [], "the clock of that worker may be wrong: no wait is longer than its pause"
    assert words(script.wait(1)) == ["start a:0 #8"]
    script.begin(A0)
    assert written(script.conflict(A0), TaskState.PENDING).conflicts == 8


def test_what_fails_or_is_restarted_is_in_conflict_no_longer() -> None:
    script = Script(retries=1).running(A0)
    script.conflict(A0)
    script.wait(1_000)
    script.begin(A0)
    failed = written(script.fail(A0), TaskState.PENDING)
    assert (failed.failures, failed.conflicts, failed.conflict_since_ms) == (1, 0, None)


def test_a_task_that_was_to_stop_anyway_has_stopped() -> None:
    script = Script().running(A0)
    script.revoke(A0)
    assert words(script.conflict(A0)) == ["write a:0 stopped", "released a:0"]


def test_a_stream_whose_predecessor_is_over_runs_on() -> None:
    script = Script(kind=TaskKind.STREAMING).running(A0)
    script.conflict(A0)
    script.wait(1_000)
    assert written(script.begin(A0), TaskState.RUNNING).attempt == 2


def test_a_warm_up_in_conflict_waits_and_has_not_failed() -> None:
    script = Script()
    script.learn(A0)
    for pause_ms in (1_000, 2_000, 4_000, 8_000, 16_000):
        done = script.feed(WarmUpConflicted, task=A0, error="race")
        assert Inform(message="the warm-up of a:0 waits for another writer: race") in done
        assert script.learner(A0) is LearnerState.WAITING
        assert words(script.wait(pause_ms - 1)) == []
        assert words(script.wait(1)) == ["warm up a:0 #1"]
    assert script.execution.learners.tasks[A0].failures == 0


def test_an_older_record_says_nothing_of_conflicts_and_a_task_without_one_writes_none() -> None:
    status = Script().running(A0).execution.runs[A0].status(TaskState.RUNNING, OTHER)
    assert not {"conflicts", "conflict_since_ms"} & status.to_json().keys()
    in_conflict = replaced(status, conflicts=3, conflict_since_ms=7)
    assert TaskStatus.from_json(in_conflict.to_json()) == in_conflict
    assert TaskStatus.from_json(status.to_json()).conflicts == 0
