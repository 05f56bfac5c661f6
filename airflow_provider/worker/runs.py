"""What a worker knows of each task it was given, and what it has to say of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from airflow_provider.ledger.records import (
    CheckpointClaim,
    StreamProgress,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    TaskWork,
    task_name,
)
from airflow_provider.protocol.model import Epoch, TaskId, WorkerId
from airflow_provider.spark.query_progress import QueryProgress
from airflow_provider.spark.runner import TaskOrder


class RunState(str, Enum):
    """Where a task is in this worker."""

    WAITING = "waiting"
    """For a slot, or for its next attempt."""
    STARTED = "started"
    """Handed to the runner; its last event is still to come."""
    STOPPING = "stopping"
    """Told to stop, and to be given up then."""
    TIMED_OUT = "timed out"
    """Told to stop, because it took longer than its job allows. That has been counted as a failure."""
    RESTARTING = "restarting"
    """Told to stop, because what it shall run has changed."""
    CLOSING = "closing"
    """Has ended; its last record is being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A task in this worker.

    :param attempt: the number of the present or next start, from 1
    :param not_before_ms: start no sooner (monotonic milliseconds)
    :param retry_at_ms: the same by wall clock, for whoever has the task then; None where nothing is waited for
    :param started_at_ms: wall clock of the present start, None before the job's code was called
    :param claim: of the checkpoint, where the task's configuration names it
    :param progress: of a stream: its last batch, as far as it was told
    :param wait_written: while it waits: whether this worker has written that it does
    """

    work: TaskWork
    epoch: Epoch
    state: RunState = RunState.WAITING
    kind: TaskKind = TaskKind.BATCH
    attempt: int = 1
    failures: int = 0
    spark_deaths: int = 0
    not_before_ms: int = 0
    retry_at_ms: int | None = None
    started_at_ms: int | None = None
    error: TaskFailure | None = None
    claim: CheckpointClaim | None = None
    progress: StreamProgress | None = None
    wait_written: bool = False

    @property
    def task(self) -> TaskId:
        return self.work.task

    @property
    def takes_slot(self) -> bool:
        """Planners are short and others wait for them: they never wait for a slot."""
        return not self.task.is_planner and self.state is not RunState.WAITING and self.state is not RunState.CLOSING

    def is_of(self, work: TaskWork) -> bool:
        """Whether that is what is run here."""
        run_key = self.work.definition.run_key
        return (self.work.fingerprint, run_key) == (work.fingerprint, work.definition.run_key)

    def failed(self, error: TaskFailure) -> TaskRun:
        return replace(self, failures=self.failures + 1, error=error)

    def cut_short(self, state: TaskState, refusal: str) -> TaskRun:
        """With an error for which there is room, where the record of its end is refused for its size."""
        if state is TaskState.FAILED and self.error is not None:
            return replace(self, error=TaskFailure(message=self.error.message))
        return self.failed(TaskFailure.of(f"its result has no room in its record: {refusal}; return less"))

    def next_attempt(self, delay_ms: int, *, now_ms: int, wall_ms: int) -> TaskRun:
        return replace(
            self,
            state=RunState.WAITING,
            attempt=self.attempt + 1,
            started_at_ms=None,
            progress=None,
            not_before_ms=now_ms + delay_ms,
            retry_at_ms=wall_ms + delay_ms if delay_ms else None,
            wait_written=True,
        )

    def under(self, work: TaskWork, *, now_ms: int, wall_ms: int) -> TaskRun:
        """The same work by a definition that has others than before for retries and intervals: nobody waits longer."""
        longest_ms = _longest_wait_ms(work)
        if self.not_before_ms <= now_ms + longest_ms:
            return replace(self, work=work)
        return replace(self, work=work, not_before_ms=now_ms + longest_ms, retry_at_ms=wall_ms + longest_ms)

    def progressed(self, progress: QueryProgress, wall_ms: int) -> TaskRun:
        told = StreamProgress(batch=progress.batch, rows_per_second=progress.rows_per_second, at_ms=wall_ms)
        return replace(self, progress=told)

    def start(self) -> TaskRun:
        return replace(self, state=RunState.STARTED, retry_at_ms=None)

    def order(self) -> TaskOrder:
        """What a runner is told."""
        definition = self.work.definition
        return TaskOrder(
            task=self.task,
            entry_point=definition.entry_point,
            config=self.work.config,
            epoch=self.epoch,
            attempt=self.attempt,
            run_key=definition.run_key or None,
            name="" if self.task.is_planner else task_name(self.work.config),
            max_tasks=definition.max_tasks,
            bounded=self.task.is_planner or definition.kind is TaskKind.BATCH,
        )

    def status(self, state: TaskState, worker: WorkerId, **more: object) -> TaskStatus:
        """The record that says so."""
        return TaskStatus(
            task=self.task,
            state=state,
            epoch=self.epoch,
            worker=worker,
            run_key=self.work.definition.run_key,
            kind=self.kind,
            fingerprint=self.work.fingerprint,
            attempt=self.attempt,
            failures=self.failures,
            spark_deaths=self.spark_deaths,
            started_at_ms=self.started_at_ms,
            retry_at_ms=self.retry_at_ms,
            error=self.error,
            claim=self.claim,
            progress=self.progress,
            **more,  # type: ignore[arg-type]
        )


def last_word(told: TaskStatus | None, own: TaskStatus | None) -> TaskStatus | None:
    """The newer of what the topic says of a task and what this worker said itself, which may still be on its way."""
    if told is None or own is None:
        return told or own
    if told.epoch != own.epoch:
        return max(told, own, key=lambda status: status.epoch)
    return told if told.attempt > own.attempt else own


def first_run(work: TaskWork, epoch: Epoch, last: TaskStatus | None, *, now_ms: int, wall_ms: int) -> TaskRun:
    """A task as a worker takes it over: what others have done in this run of the job counts, and what they waited for.

    :param now_ms: the monotonic clock
    :param wall_ms: the wall clock; another host's may differ, so nobody waits longer than the job says
    """
    run = TaskRun(work=work, epoch=epoch, kind=work.definition.kind if not work.task.is_planner else TaskKind.BATCH)
    if last is None or not last.is_of(work.definition.run_key, work.fingerprint):
        return run
    began = last.started_at_ms is not None
    waits_ms = min(max(0, (last.retry_at_ms or 0) - wall_ms), _longest_wait_ms(work))
    return TaskRun(
        work=work,
        epoch=epoch,
        kind=run.kind,
        attempt=last.attempt + 1 if began else last.attempt,
        failures=last.failures,
        spark_deaths=last.spark_deaths,
        not_before_ms=now_ms + waits_ms if waits_ms else 0,
        retry_at_ms=wall_ms + waits_ms if waits_ms else None,
        error=last.error,
    )


def _longest_wait_ms(work: TaskWork) -> int:
    return max(work.definition.retry_delay_ms, work.definition.replan_interval_ms or 0)


def ended_elsewhere(run: TaskRun, statuses: Mapping[TaskId, TaskStatus]) -> bool:
    """Whether a task has ended since it was taken over: the last word of whoever had it before may come late. A planner
    does not wait.
    """
    last = statuses.get(run.task)
    about_this = last is not None and last.is_of(run.work.definition.run_key, run.work.fingerprint)
    return about_this and last is not None and last.state.final and not run.task.is_planner


def is_said_to_run(last: TaskStatus | None) -> bool:
    """Whether a worker must say that a task it has taken over waits. Mostly not: a task that is assigned, and of which
    its worker has said nothing, is known to wait. But somebody is still said to run this one, and does not any more.
    """
    return last is not None and last.state is TaskState.RUNNING


def says_that_it_was_released(last: TaskStatus | None, worker: WorkerId) -> bool:
    """Whether by its own last word a worker has released a task that now waits there. If it keeps the task in a further
    round it says so, for a leader of an older release goes by the last words about tasks alone. It would think that the
    worker has released the task since, and have the group rebalance again and again.
    """
    return last is not None and last.worker == worker and last.state is not TaskState.PENDING
