"""A stream that stalls: it runs, and has not moved for longer than expected
(:mod:`airflow_provider.worker.tasks.runs.liveness`).

This is only reported, in its record and in the log: what it waits for may still come, and people decide. It ends with
the next movement.
"""

from __future__ import annotations

from dataclasses import fields

from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.runner import ServersSilent, TaskProgressed
from airflow_provider.state.records import SparkWork, StreamProgress, TaskState
from airflow_provider.state.records.times import span
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.attempts import on_time_over
from airflow_provider.worker.tasks.commands import Inform, WriteProgress
from airflow_provider.worker.tasks.events import TimerFired
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.stream_health import forgiven
from airflow_provider.worker.tasks.state import Execution


def on_timer(x: Execution, task: TaskId, event: TimerFired) -> None:
    """The time limit of an attempt is over, or its stream has not moved for too long."""
    run = x.runs[task]
    if run.time_over_ms is not None and run.time_over_ms <= x.now:
        on_time_over(x, task, event)
        return
    stalled = x.keep(replaced(run, liveness=run.liveness.stalled(x.now, x.wall)))
    x.write(stalled, TaskState.RUNNING)
    since_ms = stalled.liveness.stalled_since_ms
    assert since_ms is not None
    expected_ms = run.liveness.patience_ms(run.work.definition.stall_after_ms)
    far = f"; its last batch: {run.progress.in_words()}" if isinstance(run.progress, StreamProgress) else ""
    why = f"no batch has ended for {span(x.wall - since_ms)}, and {span(expected_ms)} were expected at most{far}"
    x.warn_of(run, "is stalled", "are stalled", why)


def on_servers(x: Execution, event: ServersSilent) -> None:
    """While their server is silent, nobody sees whether streams move. They may have moved, and are looked at first when
    it answers again.
    """
    for task in x.runs.active:
        run = x.runs[task]
        moves = run.state is RunState.STARTED and run.liveness.moved_ms is not None
        if moves and run.detached is event.detached:
            x.keep(replaced(run, liveness=run.liveness.unseen() if event.silent else run.liveness.begun(x.now)))


def on_progressed(x: Execution, task: TaskId, event: TaskProgressed) -> None:
    run = x.runs[task]
    stalled = run.liveness.stalled_since_ms is not None
    if isinstance(event.progress, QueryMoves):
        moved = x.keep(replaced(run, liveness=run.liveness.moved(x.now), progress=_progress_now(x, run)))
        if stalled:
            _say_that_it_moves_again(x, moved)
        elif moved.progress is not run.progress:
            x.do(WriteProgress(status=moved.status(TaskState.RUNNING, x.settings.worker)))
        return
    before, progress = run.progress, _in_record(event.progress, at_ms=x.wall)
    if isinstance(progress, StreamProgress):
        if progress.is_same(before):  # a new watch has looked for the first time, and nothing has ended since
            return
        x.evidence.went_well()
        run = run.goes_well_at(x.settings.worker)
        run = replaced(run, liveness=run.liveness.moved(x.now, progress.batch_ms))
    run = x.keep(forgiven(replaced(run, progress=progress), now_ms=x.now))
    if stalled:
        _say_that_it_moves_again(x, run)
    else:
        x.do(WriteProgress(status=run.status(TaskState.RUNNING, x.settings.worker)))
    if not (isinstance(progress, StreamProgress) and progress.says_as(before)):
        x.do(Inform(message=f"task {run.label}: {progress.in_words()}"))


def _progress_now(x: Execution, run: TaskRun) -> StreamProgress | SparkWork | None:
    """Its progress when it moves without a new batch. The record of a query that others may watch next says so before
    they would take the time between two batches for a long batch.
    """
    if not (run.detached and isinstance(run.progress, StreamProgress)):
        return run.progress
    patience_ms = run.liveness.patience_ms(run.work.definition.stall_after_ms)
    is_old = 2 * (x.wall - run.progress.at_ms) >= patience_ms
    return replaced(run.progress, at_ms=x.wall) if is_old else run.progress


def _in_record(progress: QueryProgress | JobCounts, *, at_ms: int) -> StreamProgress | SparkWork:
    said = {field.name: getattr(progress, field.name) for field in fields(progress)}
    if isinstance(progress, QueryProgress):
        return StreamProgress(**said, at_ms=at_ms)
    return SparkWork(**said, at_ms=at_ms)


def _say_that_it_moves_again(x: Execution, run: TaskRun) -> None:
    x.write(run, TaskState.RUNNING)
    x.tell_of(run, "is no longer stalled", "are no longer stalled")
