"""What the last record of a task means to the worker that gets it."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, TaskWork, is_driver
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.liveness import Liveness
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun


def last_word(stored: TaskStatus | None, own: TaskStatus | None) -> TaskStatus | None:
    """The newer one of a task's record in the topic and this worker's own last record, which may not be stored yet."""
    if stored is None or own is None:
        return stored or own
    if stored.epoch != own.epoch:
        return max(stored, own, key=lambda status: status.epoch)
    if not stored.is_of(own.run_key, own.fingerprint):
        return own  # of two works in one epoch, its worker has had the stored one before
    return stored if stored.attempt > own.attempt else own


def first_run(work: TaskWork, epoch: Epoch, last: TaskStatus | None, *, now_ms: int, wall_ms: int) -> TaskRun:
    """A task when a worker gets it. Attempts, failures and waits of earlier workers in this run of the job count.

    :param now_ms: the monotonic clock
    :param wall_ms: the wall clock; other hosts' may differ, so no wait is longer than the job says
    """
    run = TaskRun(work=work, epoch=epoch, kind=work.definition.kind if not work.task.is_planner else TaskKind.BATCH)
    if last is not None and not work.task.is_planner:
        run = replaced(run, took_before_ms=last.times_ms)
    if last is None or not last.is_of(work.definition.run_key, work.fingerprint):
        return run
    began = last.started_at_ms is not None
    run = replaced(
        run,
        attempt=last.attempt + 1 if began else last.attempt,
        failures=last.failures,
        forgiven=last.forgiven,
        spark_deaths=last.spark_deaths,
        process_deaths=last.process_deaths,
        died_alone=last.died_alone,
        acquitted=last.acquitted,
        conflicts=last.conflicts,
        conflict_since_ms=last.conflict_since_ms,
        ended_after_batch=last.ended_after_batch,
        failed_on=last.failed_on,
        last_try=last.last_try,
        error=last.error,
        liveness=Liveness(longest_ms=(last.progress and last.progress.batch_ms) or 0),
    )
    waits_ms = min(max(0, (last.retry_at_ms or 0) - wall_ms), run.longest_wait_ms)
    return replaced(run, not_before_ms=now_ms + waits_ms, retry_at_ms=wall_ms + waits_ms) if waits_ms else run


def taken_over(run: TaskRun, last: TaskStatus, *, attempt: int, now_ms: int, wall_ms: int) -> TaskRun:
    """A task whose earlier query may still be running. If it is of the same work, the same attempt continues; otherwise
    the query has to end first.

    :param run: from :func:`first_run`
    :param last: the record of the earlier query
    :param attempt: its number from now on
    """
    ran_ms = max(0, wall_ms - last.started_at_ms) if last.started_at_ms is not None else 0
    moved_ms = None if is_driver(last.handle) else last.moved_ms
    asked_since = run.read_to if last.read_to is None else min(run.read_to, last.read_to)
    return replaced(
        run,
        state=RunState.TAKING_OVER,
        attempt=attempt,
        read_to=asked_since,
        started_at_ms=last.started_at_ms,
        began_ms=now_ms - ran_ms,
        alone=last.alone,
        handle=last.handle,
        detached=True,
        progress=last.progress,
        liveness=replaced(
            run.liveness,
            moved_ms=None if moved_ms is None else now_ms - max(0, wall_ms - moved_ms),
            stalled_since_ms=last.stalled_since_ms,
        ),
        error=None if last.state is TaskState.PENDING else run.error,
        not_before_ms=0,
        retry_at_ms=None,
    )


def ended_elsewhere(run: TaskRun, statuses: Mapping[TaskId, TaskStatus]) -> bool:
    """Whether a task has ended since this worker got it: the last record of the previous worker may come late. Not for
    planners.
    """
    last = statuses.get(run.task)
    about_this = last is not None and last.is_of(run.work.definition.run_key, run.work.fingerprint)
    return about_this and last is not None and last.state.final and not run.task.is_planner


def is_said_to_run(last: TaskStatus | None) -> bool:
    """Whether the last record of a task says that it runs. If it waits, its worker must write so. Otherwise nothing is
    written: an assigned task without a record of its worker counts as waiting.
    """
    return last is not None and last.state is TaskState.RUNNING


def says_that_it_was_released(last: TaskStatus | None, worker: WorkerId) -> bool:
    """Whether a waiting task was released according to the last record, which this worker has written. If the worker
    keeps the task in a further round, it writes that the task waits. Leaders of older releases look only at the tasks'
    records: they would think that the task was released since, and rebalance again and again.
    """
    return last is not None and last.worker == worker and last.state is not TaskState.PENDING
