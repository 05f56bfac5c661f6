"""A stream that runs and does not move is never silent: it is stalled, until it moves."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from execution_script import A1, OTHER, Script, words, written
from executor_bench import A0, ME, Bench, bench
from turned_clock import time_passes
from waiting import eventually

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.runner import QueryAdopted, QueryStarted, QueryUnreachable, ServersSilent, TaskProgressed
from airflow_provider.state.metrics.declared import STALLED
from airflow_provider.state.metrics.event_counts import Course
from airflow_provider.state.metrics.gauges import gauges
from airflow_provider.state.records import (
    JobDefinition,
    StreamProgress,
    TaskEvent,
    TaskKind,
    TaskState,
    TaskStatus,
    TaskWork,
    decode,
)
from airflow_provider.state.reports.group_events import EventFold, GroupEvent
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.reports.task_runs import run_to_json
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.state.views.task_progress.shown_tasks import shown_status
from airflow_provider.ui.views.tasks import found_tasks
from airflow_provider.values.model import Epoch
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands.told_together import TELL_AFTER_MS
from airflow_provider.worker.tasks.runs.liveness import FIRST_LOOK_MS, LEAST_PATIENCE_MS, Liveness
from airflow_provider.worker.tasks.runs.taking_over import first_run, taken_over

MINUTE_MS = 60_000

# ---- the decision


def test_a_stream_is_expected_to_move_within_ten_times_its_longest_recent_batch() -> None:
    stream = Liveness().begun(1_000)
    assert stream.stalls_at_ms(None) == 1_000 + LEAST_PATIENCE_MS, "nothing is known of its batches yet"
    stream = stream.moved(2_000, 5 * MINUTE_MS).moved(3_000, 1_000)
    assert stream.stalls_at_ms(None) == 3_000 + 45 * MINUTE_MS
    for _ in range(40):
        stream = stream.moved(3_000, 1_000)
    assert stream.stalls_at_ms(None) == 3_000 + LEAST_PATIENCE_MS, "a long batch is forgotten in the end"


def test_its_job_may_say_how_long_it_may_take() -> None:
    stream = Liveness().begun(0).moved(0, 5 * MINUTE_MS)
    assert stream.stalls_at_ms(2_000) == 2_000


def test_what_is_stalled_or_does_not_run_does_not_stall() -> None:
    stalled = Liveness().begun(1_000).stalled(61_000, wall_ms=1_000_000)
    assert stalled.stalled_since_ms == 940_000
    assert stalled.stalls_at_ms(None) is stalled.ended().stalls_at_ms(None) is Liveness().stalls_at_ms(None) is None
    assert stalled.begun(70_000) == stalled, "to be adopted is not to move"
    assert stalled.moved(70_000).stalled_since_ms is None


def test_whoever_has_it_next_knows_how_long_its_batches_took_and_that_it_is_stalled() -> None:
    worker_of = TaskStatus(
        task=A0,
        state=TaskState.RUNNING,
        epoch=Epoch(1),
        worker=ME,
        kind=TaskKind.STREAMING,
        handle={"session_id": "s"},
        progress=StreamProgress(batch=7, rows_per_second=1.0, at_ms=1, batch_ms=7 * MINUTE_MS),
        stalled_since_ms=5,
    )
    work = TaskWork(task=A0, definition=JobDefinition(name="a", entry_point="m:f"), config={}, fingerprint="")
    run = first_run(work, Epoch(2), worker_of, now_ms=0, wall_ms=0)
    assert run.liveness == Liveness(longest_ms=7 * MINUTE_MS)
    assert taken_over(run, worker_of, attempt=1, now_ms=0, wall_ms=0).liveness.stalled_since_ms == 5


# ---- under another watcher

HANDLE = {"session_id": "s", "query": "q"}
BATCH_7 = QueryProgress(batch=7, rows_per_second=12.5, batch_ms=2_000, asked_at_ms=5)


def watched_since(script: Script, last: TaskStatus) -> Script:
    """Another worker of the group watches the query from now on; nobody has told it to stop."""
    script.say(replaced(last, worker=OTHER))
    script.revoke(A0)
    script.give(A0, epoch=last.epoch + 1)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    return script


def running_there(**definition: Any) -> Script:
    """A query that has just ended batch 7, and is watched here."""
    script = Script(kind=TaskKind.STREAMING, **{"stall_after_ms": 120_000, **definition})
    script.runs_there(A0, handle=HANDLE)
    watched_since(script, script.status.tasks[A0])
    script.feed(TaskProgressed, task=A0, progress=BATCH_7)
    return script


def record(script: Script) -> TaskStatus:
    return script.execution.runs[A0].status(TaskState.RUNNING, ME)


def test_a_stream_stalls_though_its_watchers_change_again_and_again() -> None:
    script = running_there()
    ended_ms = script.now + script.wall_ahead
    for _ in range(2):
        script.wait(50_000)
        watched_since(script, record(script))
        script.feed(TaskProgressed, task=A0, progress=BATCH_7)
        assert record(script).stalled_since_ms is None
    stalled = written(script.wait(FIRST_LOOK_MS), TaskState.RUNNING)
    assert stalled.stalled_since_ms == ended_ms
    watched_since(script, stalled)
    assert words(script.feed(TaskProgressed, task=A0, progress=BATCH_7)) == [], "it has not moved: it is looked at"
    assert record(script).stalled_since_ms == ended_ms
    later = replace(BATCH_7, batch=8, asked_at_ms=6)
    assert written(script.feed(TaskProgressed, task=A0, progress=later), TaskState.RUNNING).stalled_since_ms is None


def test_a_stream_that_nobody_has_watched_for_long_is_looked_at_before_it_is_stalled() -> None:
    script = running_there()
    last = record(script)
    script.wait(110_000)
    script.wait(20_000)
    watched_since(script, last)
    script.wait(FIRST_LOOK_MS - 1)
    assert record(script).stalled_since_ms is None
    script.feed(TaskProgressed, task=A0, progress=QueryMoves())
    script.feed(TaskProgressed, task=A0, progress=BATCH_7)
    script.wait(119_999)
    assert record(script).stalled_since_ms is None


def test_that_a_stream_waits_for_its_next_trigger_is_in_its_record() -> None:
    script = running_there()
    for _ in range(60):
        script.wait(30_000)
        script.feed(TaskProgressed, task=A0, progress=QueryMoves())
    watched_since(script, record(script))
    script.wait(FIRST_LOOK_MS)
    assert record(script).stalled_since_ms is None


def test_a_new_attempt_has_all_its_time() -> None:
    script = running_there()
    script.wait(100_000)
    script.fail(A0)
    script.now += 100_000
    script.wait(0)
    script.begin(A0)
    script.feed(QueryStarted, task=A0, query_id="q")
    script.wait(119_999)
    assert record(script).stalled_since_ms is None
    assert written(script.wait(1), TaskState.RUNNING).stalled_since_ms is not None


def test_a_query_that_cannot_be_asked_says_why_it_waits_and_not_that_it_is_stalled() -> None:
    script = running_there()
    script.feed(QueryUnreachable, task=A0, why="nobody answers")
    assert words(script.wait(200_000)) == []
    found = written(script.feed(QueryAdopted, task=A0, handle=HANDLE), TaskState.RUNNING)
    assert found.stalled_since_ms is None
    assert written(script.wait(FIRST_LOOK_MS), TaskState.RUNNING).stalled_since_ms is not None, "since batch 7"


def silence(script: Script, *, silent: bool) -> None:
    script.feed(ServersSilent, silent=silent, detached=True)


def test_a_stream_is_not_stalled_while_its_server_is_silent_and_is_looked_at_first_when_it_answers() -> None:
    script = running_there()
    script.wait(100_000)
    silence(script, silent=True)
    assert words(script.wait(200_000)) == []
    silence(script, silent=False)
    script.wait(FIRST_LOOK_MS - 1)
    assert record(script).stalled_since_ms is None
    assert written(script.wait(1), TaskState.RUNNING).stalled_since_ms is not None, "since batch 7"


def test_one_that_is_adopted_meanwhile_is_not_stalled_either_until_it_is_seen() -> None:
    script = running_there()
    silence(script, silent=True)
    watched_since(script, record(script))
    assert words(script.wait(200_000)) == []
    script.feed(TaskProgressed, task=A0, progress=QueryMoves())
    assert written(script.wait(120_000), TaskState.RUNNING).stalled_since_ms is not None, "another server is silent"


def test_what_is_attached_or_no_stream_is_not_touched_by_it() -> None:
    script = Script(kind=TaskKind.STREAMING, stall_after_ms=120_000)
    script.give(A0, A1)
    script.begin(A0)
    script.begin(A1)
    script.feed(QueryStarted, task=A0, query_id="q")
    silence(script, silent=True)
    script.wait(119_999)
    assert record(script).stalled_since_ms is None
    assert written(script.wait(1), TaskState.RUNNING).stalled_since_ms is not None
    silence(script, silent=False)
    assert script.execution.runs[A1].liveness == Liveness()


# ---- in a worker


async def streaming(worker: Bench, **definition: object) -> None:
    await worker.submit(tasks=1, **{"kind": TaskKind.STREAMING, **definition})
    worker.take(A0)
    await worker.runs(A0)
    worker.runner.streams(A0)
    await time_passes(1)
    worker.runner.progress(A0, QueryProgress(batch=7, rows_per_second=12.5, batch_ms=2_000))
    await eventually(lambda: worker.told(A0).progress is not None)


def shown(worker: Bench) -> TaskState:
    last = shown_status(A0, worker.topics.jobs, worker.topics.status)
    assert last is not None
    return last.state


@pytest.mark.turned_clock
async def test_a_stream_that_does_not_move_is_stalled_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with bench(slots=1) as worker:
        await streaming(worker)
        await time_passes(LEAST_PATIENCE_MS / 1000 - 1)
        assert shown(worker) is TaskState.RUNNING
        began_ms = wall_ms() - LEAST_PATIENCE_MS + 1_000
        await time_passes(2)
        assert shown(worker) is TaskState.STALLED
        await time_passes(TELL_AFTER_MS / 1000)
        assert worker.told(A0).stalled_since_ms == pytest.approx(began_ms, abs=1_000)
        assert worker.state(A0) is TaskState.RUNNING, "what is stalled runs, for workers of all releases"
        assert "task a:0 is stalled: no batch has ended for 10 min, and 10 min were expected at most" in caplog.text
        await time_passes(7_200)
        assert caplog.text.count("is stalled") == 1
        worker.runner.progress(A0, QueryProgress(batch=8, rows_per_second=1.0, batch_ms=2_000))
        await eventually(lambda: shown(worker) is TaskState.RUNNING)
        await time_passes(TELL_AFTER_MS / 1000)
        assert "task a:0 is no longer stalled" in caplog.messages
        await time_passes(LEAST_PATIENCE_MS / 1000 + 1)
        assert shown(worker) is TaskState.STALLED, "again"


@pytest.mark.turned_clock
async def test_a_stream_with_nothing_to_read_is_not_stalled() -> None:
    async with bench(slots=1) as worker:
        await streaming(worker)
        for _ in range(120):
            await time_passes(60)
            worker.runner.progress(A0, QueryMoves())
        assert shown(worker) is TaskState.RUNNING
        await time_passes(LEAST_PATIENCE_MS / 1000 + 1)
        assert shown(worker) is TaskState.STALLED
        worker.runner.progress(A0, QueryMoves())
        await eventually(lambda: shown(worker) is TaskState.RUNNING)


@pytest.mark.turned_clock
async def test_its_job_says_how_long_it_may_take_even_while_it_runs() -> None:
    async with bench(slots=1) as worker:
        await streaming(worker, stall_after_ms=30_000)
        await time_passes(31)
        assert shown(worker) is TaskState.STALLED
        worker.runner.progress(A0, QueryMoves())
        await eventually(lambda: shown(worker) is TaskState.RUNNING)
        await worker.topics.submit(replace(worker.topics.jobs.jobs["a"], stall_after_ms=60_000))
        await time_passes(50)
        assert shown(worker) is TaskState.RUNNING
        await time_passes(11)
        assert shown(worker) is TaskState.STALLED


@pytest.mark.turned_clock
async def test_everybody_sees_it() -> None:
    """As a state in the counts, in the metrics, on the page and in words; and as an event of the group, once."""
    async with bench(slots=1) as worker:
        await streaming(worker)
        topics = worker.topics
        before, event_at = topics.status, len(topics.events)
        await time_passes(LEAST_PATIENCE_MS / 1000 + 1)
        progress = job_progress("a", topics.jobs, topics.status)
        assert progress is not None
        assert (progress.counts, progress.running_everywhere) == ({TaskState.STALLED: 1}, True)
        states = {
            s.tags[-1]: s.value for s in gauges("g", topics.jobs, topics.status, now_ms=0, unconverged_since_ms=None)
        }
        assert (states["stalled"], states["running"]) == (1, 0)
        _, samples = Course.beginning(before, Epoch(0)).until(topics.status, "g", {ME}, 0)
        assert [(s.value, s.tags) for s in samples if s.metric is STALLED] == [(1, ("g", "a"))]
        (found,) = found_tasks(topics.jobs, topics.status)
        assert found.state is TaskState.STALLED
        described = JobDescription.of("a", topics.jobs, topics.status)
        assert described is not None
        assert any("a:0: stalled on w1" in line for line in described.lines(now_ms=wall_ms()))
        last = shown_status(A0, topics.jobs, topics.status)
        assert last is not None
        run = run_to_json(last, wall_ms())
        assert run["progress"].startswith("no batch has ended for 10 min, batch 7")
        assert run["lag"] == {"known": "unknown"}
        assert run["seconds"] >= 600, "it still runs"

        fold = EventFold()
        told: list[GroupEvent] = [each for event in topics.events[event_at:] for each in fold.take(event)]
        (event,) = told
        assert event.to_json("g") == {
            "event": "task_stalled",
            "group": "g",
            "id": f"g/task_stalled/a:0//1/{last.stalled_since_ms}",
            "at_ms": event.at_ms,
            "job": "a",
            "task": 0,
            "run_key": "",
            "attempt": 1,
            "worker": ME,
            "since_ms": last.stalled_since_ms,
            "last_batch": 7,
        }
        again = replaced(topics.status.tasks[A0], epoch=Epoch(9))
        assert fold.take(TaskEvent(status=again, at_ms=8)) == (), "its next worker says the same"


def test_a_record_of_an_earlier_release_says_nothing_of_it() -> None:
    status = TaskStatus(task=A0, state=TaskState.RUNNING, epoch=Epoch(1), worker=ME)
    written = decode(status.encoded())
    assert "stalled_since_ms" not in written
    assert TaskStatus.from_json(written).stalled_since_ms is None
