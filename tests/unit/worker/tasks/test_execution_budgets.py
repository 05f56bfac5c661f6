"""The retries of a task: the pauses between them grow, and a stream gets them back by going well."""

from __future__ import annotations

import pytest
from execution_script import A0, A1, OTHER, Script, words, written

from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.runner import QueryStarted, TaskProgressed
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import GOOD_MS
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import ArmTimer, StartAttempt
from airflow_provider.worker.tasks.runs.liveness import Liveness
from airflow_provider.worker.tasks.runs.retry_pauses import longest_retry_ms, retry_pause_ms
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.stream_health import GOOD_BATCHES

STREAMING = TaskKind.STREAMING


def batch(script: Script, number: int) -> TaskStatus:
    """A stream has committed this batch; what its record says then."""
    progress = QueryProgress(batch=number, rows_per_second=1.0)
    return written(script.feed(TaskProgressed, task=A0, progress=progress), TaskState.RUNNING)


def again(script: Script, wait_ms: int = 3_600_000) -> None:
    """Its pause is over, and its next attempt has begun."""
    if script.state(A0) is not RunState.STARTED:
        assert any(isinstance(command, StartAttempt) for command in script.wait(wait_ms))
    script.begin(A0)


# ---- pauses


def test_the_first_pause_is_the_jobs_own_and_then_it_doubles_up_to_five_minutes() -> None:
    assert [longest_retry_ms(10_000, n) // 1_000 for n in range(1, 9)] == [10, 20, 40, 80, 160, 300, 300, 300]
    assert [longest_retry_ms(0, n) // 1_000 for n in range(1, 6)] == [0, 2, 4, 8, 16], "without a delay of its own"
    assert [longest_retry_ms(3_600_000, n) for n in (1, 2, 99)] == [3_600_000] * 3, "a longer delay of the job's stays"
    assert longest_retry_ms(1, 2**40) == 300_000


def test_tasks_that_fail_together_are_not_tried_again_together() -> None:
    tasks = [TaskId("a", index) for index in range(100)]
    pauses = [retry_pause_ms(task, 10_000, 3) for task in tasks]
    assert pauses == [retry_pause_ms(task, 10_000, 3) for task in tasks], "it is no chance"
    assert len(set(pauses)) > 90
    assert all(20_000 <= pause <= 40_000 for pause in pauses)
    assert [retry_pause_ms(A1, 10_000, n) for n in (1, 9)] == [10_000, 300_000]


def test_a_task_that_fails_again_and_again_waits_longer_and_longer() -> None:
    script = Script(retries=9, retry_delay_ms=10_000).running(A0)
    for failures in (1, 2, 3):
        pause_ms = retry_pause_ms(A0, 10_000, failures)
        assert ArmTimer(at_ms=script.now + pause_ms) in script.fail(A0)
        assert words(script.wait(pause_ms - 1)) == []
        again(script, 1)


def test_a_shorter_delay_of_an_altered_job_shortens_the_pause_that_it_is_in() -> None:
    script = Script(retries=9, retry_delay_ms=100_000).running(A0)
    script.fail(A0)
    again(script)
    script.fail(A0)
    script.define(retry_delay_ms=1_000)
    assert words(script.wait(2_000)) == ["start a:0 #3"]


# ---- what is forgiven


def test_a_stream_that_fails_every_twelve_batches_is_never_failed_for_good() -> None:
    script = Script(kind=STREAMING, retries=2).running(A0)
    for time in range(1, 9):
        batch(script, 12 * time - 1)
        failed = written(script.fail(A0), TaskState.PENDING)
        assert failed.failures == time, "each is counted, but does not count for ever"
        assert failed.failures - failed.forgiven == 1
        again(script)


def test_a_batch_that_always_fails_uses_up_all_retries() -> None:
    script = Script(kind=STREAMING, retries=2).running(A0)
    batch(script, 11)
    for _ in range(2):
        assert written(script.fail(A0), TaskState.PENDING).forgiven == 0
        again(script)
        batch(script, 11)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


@pytest.mark.parametrize(("batches", "well"), [(GOOD_BATCHES, True), (GOOD_BATCHES - 1, False)])
def test_the_record_of_a_stream_says_so_when_it_has_gone_well_since(batches: int, well: bool) -> None:
    script = Script(kind=STREAMING, retries=2).running(A0)
    batch(script, 5)
    script.fail(A0)
    again(script)
    told = batch(script, 5 + batches)
    assert (told.error is None, told.forgiven) == (well, int(well))


@pytest.mark.parametrize(("ms", "well"), [(GOOD_MS, True), (GOOD_MS - 1, False)])
def test_so_does_one_that_has_run_for_long_without_a_batch(ms: int, well: bool) -> None:
    script = Script(kind=STREAMING, retries=1).running(A0)
    script.fail(A0)
    again(script)
    script.wait(ms)
    assert ("write a:0 pending" in words(script.fail(A0))) is well


def test_a_stream_that_has_only_been_stalled_for_long_has_not_gone_well() -> None:
    script = Script(kind=STREAMING, retries=1, stall_after_ms=1_000).running(A0)
    script.fail(A0)
    again(script)
    script.feed(QueryStarted, task=A0, query_id="q")
    assert script.wait(1_000), "it says that it is stalled"
    script.wait(2 * GOOD_MS)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


@pytest.mark.parametrize(("moves_after_ms", "well"), [(GOOD_MS, True), (GOOD_MS - 1, False)])
def test_the_time_that_a_stream_takes_to_fail_counts_only_as_far_as_it_has_moved(
    moves_after_ms: int, well: bool
) -> None:
    script = Script(kind=STREAMING, retries=1, stall_after_ms=100 * GOOD_MS).running(A0)
    script.fail(A0)
    again(script)
    script.feed(QueryStarted, task=A0, query_id="q")
    script.wait(moves_after_ms)
    script.feed(TaskProgressed, task=A0, progress=QueryMoves())
    script.wait(2 * GOOD_MS)
    assert ("write a:0 pending" in words(script.fail(A0))) is well


def test_a_stream_that_was_stalled_when_it_came_here_has_not_gone_well_before_it_moves_here() -> None:
    assert Liveness().moving_ms() is None, "nobody sees it"
    stalled = Liveness(stalled_since_ms=5).begun(0)
    assert stalled.moving_ms() == stalled.moved(GOOD_MS).moving_ms() == 0
    assert stalled.moved(GOOD_MS).moved(3 * GOOD_MS).moving_ms() == 2 * GOOD_MS


def test_a_stream_whose_job_says_nothing_of_retries_is_tried_again_as_often_as_it_takes() -> None:
    script = Script(kind=STREAMING, retries=None, retry_delay_ms=10_000).running(A0)
    for _ in range(100):
        assert written(script.fail(A0), TaskState.PENDING).error is not None
        again(script)
    assert ArmTimer(at_ms=script.now + 300_000) in script.fail(A0), "the pause does not grow for ever"


def test_what_another_try_can_not_mend_is_not_tried_again_all_the_same() -> None:
    script = Script(kind=STREAMING, retries=None).running(A0)
    assert words(script.fail(A0, retryable=False)) == ["insist on a:0 failed"]


def test_a_task_that_ends_by_itself_gets_no_retry_back() -> None:
    script = Script(retries=1).running(A0)
    script.fail(A0)
    again(script)
    script.wait(10 * GOOD_MS)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


def test_a_conflict_that_is_over_for_long_is_another_ones_beginning() -> None:
    script = Script(kind=STREAMING).running(A0)
    for _ in range(5):
        script.conflict(A0)
        again(script)
    script.wait(GOOD_MS)
    waits = written(script.conflict(A0), TaskState.PENDING)
    assert (waits.conflicts, waits.attempt) == (1, 7)


def test_the_tasks_next_worker_knows_what_counts() -> None:
    script = Script(kind=STREAMING, retries=1)
    said = TaskStatus(
        task=A0,
        state=TaskState.STOPPED,
        epoch=script.execution.status.group.epoch if script.execution.status.group else 0,  # type: ignore[arg-type]
        worker=OTHER,
        run_key="r",
        fingerprint=script.jobs.plans["a"].fingerprints[0],
        attempt=8,
        failures=7,
        forgiven=6,
        ended_after_batch=90,
    )
    assert TaskStatus.from_json(said.to_json()) == said
    script.say(said)
    script.running(A0)
    batch(script, 90 + GOOD_BATCHES)
    assert written(script.fail(A0), TaskState.PENDING).failures == 8
    again(script)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


def test_a_record_that_forgives_more_than_there_was_forgives_all() -> None:
    run = replaced(Script().running(A0).execution.runs[A0], failures=1, forgiven=99)
    assert run.counted_failures == 0
