"""What a worker knows of each task it was given, and what it has to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider.protocol.model import Epoch, TaskId, WorkerId, labelled
from airflow_provider.protocol.replacing import replaced
from airflow_provider.records import (
    CheckpointClaim,
    PlanRecord,
    SparkWork,
    StreamProgress,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    TaskWork,
    WrittenAsset,
    cost_of,
    task_name,
)


class RunState(str, Enum):
    """Where a task is in this worker."""

    WAITING = "waiting"
    """For a slot, for its next attempt, for the checkpoint that another task still has, or for its trial."""
    PAUSED = "paused"
    """Its job is paused: it stays here, and waits for that to end."""
    TAKING_OVER = "taking over"
    """What ran of it before may run on without its worker: it is looked for, to go on with it, or to end it."""
    STARTED = "started"
    """Handed to the runner; its last event is still to come."""
    STOPPING = "stopping"
    """Told to stop, and to be given up then."""
    LEAVING = "leaving"
    """Runs on without this process, whose worker leaves: it is not known yet whether anybody stays to go on with it."""
    TIMED_OUT = "timed out"
    """Told to stop, because it took longer than its job allows. That has been counted as a failure."""
    RESTARTING = "restarting"
    """Told to stop, because what it shall run has changed."""
    PUBLISHING = "publishing"
    """A planner that has made its plan, which is being written."""
    CLOSING = "closing"
    """Has ended; its last record is being written."""
    FAILED = "failed"
    """Has failed for good, and its record says so: it keeps its place here, until somebody has it tried again."""

    @property
    def rests(self) -> bool:
        """Whether nothing becomes of the task here until people want it to."""
        return self in _RESTS

    @property
    def runs(self) -> bool:
        """Whether a last event of the attempt is still to come."""
        return self in _WITH_RUNNER


_RESTS = frozenset({RunState.PAUSED, RunState.FAILED})
_TOLD_TO_STOP = frozenset({RunState.STOPPING, RunState.TIMED_OUT, RunState.RESTARTING})
_WITH_RUNNER = frozenset({RunState.STARTED, RunState.LEAVING, *_TOLD_TO_STOP})


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a task came to its end, as its last record says.

    :param cut_short: what it had too much of has been left out
    """

    state: TaskState
    at_ms: int
    result: Any = None
    wrote: tuple[WrittenAsset, ...] = ()
    cut_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A task in this worker.

    :param attempt: the number of the present or next start, from 1
    :param slots: how many slots it was given at its present start
    :param read_to: how far the jobs topic had been read as it was taken in, or began anew: what is asked further on in
        the topic is still to be done
    :param not_before_ms: start no sooner (monotonic milliseconds)
    :param retry_at_ms: the same by wall clock, for the worker that has the task then; None where nothing is waited for
    :param started_at_ms: wall clock of the present start, None before the job's code was called
    :param claim: of the checkpoint, where the task's configuration names it
    :param progress: the last reported progress of the present start
    :param took_before_ms: how long it took in earlier runs of its job
    :param wait_written: while it waits: whether this worker has written that it does
    :param began_ms: when the job's code was called (monotonic milliseconds); its time is measured from then
    :param handle: by which what runs is found again, if it outlives this process; while it is taken over that of what
        ran before
    :param after: the handle of what lived on before this attempt, and has ended
    :param let_begin: its handle stands in the topic, so that its code may be called
    :param detached: whether it runs without this process
    :param revoked: the membership waits until it is released
    :param plan: of a planner: what is being written
    :param end: how it ended, while the record of that is being written
    :param number: of the record that is being written
    :param give_up_ms: somebody waits no longer than that for the record to be stored (monotonic milliseconds)
    """

    work: TaskWork
    epoch: Epoch
    state: RunState = RunState.WAITING
    kind: TaskKind = TaskKind.BATCH
    attempt: int = 1
    failures: int = 0
    spark_deaths: int = 0
    slots: int = 1
    read_to: int = 0
    not_before_ms: int = 0
    retry_at_ms: int | None = None
    started_at_ms: int | None = None
    error: TaskFailure | None = None
    claim: CheckpointClaim | None = None
    progress: StreamProgress | SparkWork | None = None
    took_before_ms: tuple[int, ...] = ()
    wait_written: bool = False
    began_ms: int | None = None
    handle: Any = None
    after: Any = None
    let_begin: bool = False
    detached: bool = False
    revoked: bool = False
    plan: PlanRecord | None = None
    end: End | None = None
    number: int = 0
    give_up_ms: int | None = None

    @property
    def task(self) -> TaskId:
        return self.work.task

    @property
    def label(self) -> str:
        """The task for people."""
        return labelled(self.task, "" if self.task.is_planner else task_name(self.work.config))

    @property
    def taken_slots(self) -> int:
        """How many slots it takes now. Planners are short and others wait for them: they never wait for a slot."""
        return self.slots if self.state in _WITH_RUNNER and not self.task.is_planner else 0

    @property
    def began_here(self) -> bool:
        """Whether it runs in this process: neither by itself, nor does it only end what others have begun."""
        begun_by_others = self.handle is not None and not self.number
        return not (self.detached or begun_by_others)

    @property
    def is_endless(self) -> bool:
        """Whether nobody may wait for its end."""
        return self.work.definition.kind is TaskKind.STREAMING and not self.task.is_planner

    @property
    def cost(self) -> float:
        """How much work it is; a stream has no end."""
        return 0.0 if self.kind is TaskKind.STREAMING else cost_of(self.work.weight, self.took_before_ms)

    @property
    def due_ms(self) -> int | None:
        """When something becomes of it though nothing happens: its next attempt may start, its time is over, nobody
        waits for its record any longer (monotonic milliseconds). A planner has no time limit.
        """
        if self.state is RunState.WAITING:
            return self.not_before_ms or None
        if self.state is not RunState.STARTED:
            return self.give_up_ms
        limit_ms = self.work.definition.timeout_ms
        if self.began_ms is None or limit_ms is None or self.task.is_planner:
            return None
        return self.began_ms + limit_ms

    @property
    def needs_process(self) -> bool:
        """Whether it has a part in this process: what is detached is only watched, and what rests is not even that."""
        return not (self.detached or self.state.rests)

    @property
    def is_being_ended(self) -> bool:
        """Whether it runs without this process, which has its server end it. Until that is done nobody else can tell it
        from what ends by itself.
        """
        return self.detached and self.state in _TOLD_TO_STOP

    @property
    def waits_to_begin(self) -> bool:
        """Whether it is still to be seen that others know where it is about to begin."""
        return self.state is RunState.STARTED and self.handle is not None and not (self.let_begin or self.detached)

    @property
    def plans_again(self) -> bool:
        """Whether this is a planner that would plan once more after a while: the next worker makes the same plan."""
        return self.task.is_planner and self.work.definition.replan_interval_ms is not None

    def is_of(self, work: TaskWork) -> bool:
        """Whether that is what is run here."""
        return self.work.is_same(work)

    def failed(self, error: TaskFailure) -> TaskRun:
        return replaced(self, failures=self.failures + 1, error=error)

    @property
    def may_try_again(self) -> bool:
        """Whether its job lets it fail as often as it has."""
        return self.failures <= self.work.definition.retries

    def cut_short(self, refusal: str) -> TaskRun:
        """With an error for which there is room, where the record of its end is refused for its size."""
        assert self.end is not None
        end = End(state=TaskState.FAILED, at_ms=self.end.at_ms, cut_short=True)
        if self.end.state is TaskState.FAILED and self.error is not None:
            return replaced(self, end=end, error=TaskFailure(message=self.error.message))
        failed = self.failed(TaskFailure.of(f"its result has no room in its record: {refusal}; return less"))
        return replaced(failed, end=end)

    def next_attempt(self, delay_ms: int, *, now_ms: int, wall_ms: int) -> TaskRun:
        return replaced(
            self,
            state=RunState.WAITING,
            attempt=self.attempt + 1,
            started_at_ms=None,
            began_ms=None,
            handle=None,
            after=self.handle or self.after,
            let_begin=False,
            detached=False,
            progress=None,
            plan=None,
            give_up_ms=None,
            not_before_ms=now_ms + delay_ms,
            retry_at_ms=wall_ms + delay_ms if delay_ms else None,
            wait_written=True,
        )

    def under(self, work: TaskWork, *, now_ms: int, wall_ms: int) -> TaskRun:
        """The same work by a definition that has others than before for retries and intervals: nobody waits longer."""
        longest_ms = _longest_wait_ms(work)
        if self.not_before_ms <= now_ms + longest_ms:
            return replaced(self, work=work)
        return replaced(self, work=work, not_before_ms=now_ms + longest_ms, retry_at_ms=wall_ms + longest_ms)

    def start(self, slots: int) -> TaskRun:
        """:param slots: which it is given"""
        return replaced(self, state=RunState.STARTED, retry_at_ms=None, slots=slots)

    def with_all_retries(self) -> TaskRun:
        """As if nothing had gone wrong yet in this run of the job."""
        return replaced(self, failures=0, spark_deaths=0, error=None)

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
            handle=self.handle,
            after=self.after,
            read_to=None if self.handle is None else self.read_to,
            claim=self.claim,
            progress=self.progress if isinstance(self.progress, StreamProgress) else None,
            work=self.progress if state is TaskState.RUNNING and isinstance(self.progress, SparkWork) else None,
            took_before_ms=self.took_before_ms,
            **more,  # type: ignore[arg-type]  # fields of TaskStatus
        )


def last_word(stored: TaskStatus | None, own: TaskStatus | None) -> TaskStatus | None:
    """The newer of what the topic says of a task and what this worker said itself, which may still be on its way."""
    if stored is None or own is None:
        return stored or own
    if stored.epoch != own.epoch:
        return max(stored, own, key=lambda status: status.epoch)
    return stored if stored.attempt > own.attempt else own


def first_run(work: TaskWork, epoch: Epoch, last: TaskStatus | None, *, now_ms: int, wall_ms: int) -> TaskRun:
    """A task as a worker takes it over: what others have done in this run of the job counts, and what they waited for.

    :param now_ms: the monotonic clock
    :param wall_ms: the wall clock; another host's may differ, so nobody waits longer than the job says
    """
    run = TaskRun(work=work, epoch=epoch, kind=work.definition.kind if not work.task.is_planner else TaskKind.BATCH)
    if last is not None and not work.task.is_planner:
        run = replaced(run, took_before_ms=last.times_ms)
    if last is None or not last.is_of(work.definition.run_key, work.fingerprint):
        return run
    began = last.started_at_ms is not None
    waits_ms = min(max(0, (last.retry_at_ms or 0) - wall_ms), _longest_wait_ms(work))
    return replaced(
        run,
        attempt=last.attempt + 1 if began else last.attempt,
        failures=last.failures,
        spark_deaths=last.spark_deaths,
        not_before_ms=now_ms + waits_ms if waits_ms else 0,
        retry_at_ms=wall_ms + waits_ms if waits_ms else None,
        error=last.error,
    )


def taken_over(run: TaskRun, last: TaskStatus, *, attempt: int, now_ms: int, wall_ms: int) -> TaskRun:
    """The same attempt goes on, if it is of the same work; else what ran is to end before this begins.

    :param run: what :func:`first_run` has made of it
    :param last: which lives on
    :param attempt: what its number is from now on
    """
    ran_ms = max(0, wall_ms - last.started_at_ms) if last.started_at_ms is not None else 0
    asked_since = run.read_to if last.read_to is None else min(run.read_to, last.read_to)
    return replaced(
        run,
        state=RunState.TAKING_OVER,
        attempt=attempt,
        read_to=asked_since,
        started_at_ms=last.started_at_ms,
        began_ms=now_ms - ran_ms,
        handle=last.handle,
        detached=True,
        progress=last.progress,
        error=None if last.state is TaskState.PENDING else run.error,
        not_before_ms=0,
        retry_at_ms=None,
    )


def _longest_wait_ms(work: TaskWork) -> int:
    return max(work.definition.retry_delay_ms, work.definition.replan_interval_ms or 0)


def ended_elsewhere(run: TaskRun, statuses: Mapping[TaskId, TaskStatus]) -> bool:
    """Whether a task has ended since it was taken over: the last word of the worker before may come late. A planner
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
