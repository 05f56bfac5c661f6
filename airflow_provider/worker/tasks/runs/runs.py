"""A task in a worker: its state, and the record that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from airflow_provider.state.records import (
    MOST_FAILED_ON,
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
from airflow_provider.state.records.status_topic.counted import Counted
from airflow_provider.state.views.task_progress.retrying import ALL_RETRIES
from airflow_provider.values.model import Epoch, TaskId, WorkerId, labelled
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.liveness import UNMOVED, Liveness
from airflow_provider.worker.tasks.runs.retry_pauses import conflict_pause_ms, longest_retry_ms
from airflow_provider.worker.tasks.runs.run_state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a task ended, as its last record says.

    :param cut_short: whether parts were left out because the record was too large
    """

    state: TaskState
    at_ms: int
    result: Any = None
    wrote: tuple[WrittenAsset, ...] = ()
    cut_short: bool = False


class TaskRun(Struct, Counted, frozen=True, kw_only=True):
    """A task in this worker. Each event of a task changes it, so it is one of msgspec's values, which are copied ten
    times as fast as data classes.

    :param attempt: the number of the present or next start, from 1
    :param alone: whether it was started alone on trial, and with nothing beside it if that is wanted
    :param forgiven: how many of the failures no longer count (``stream_health.py``)
    :param acquitted: of how many deaths of Spark it has been acquitted
    :param conflicts: how many attempts in a row another writer has ended
    :param conflict_since_ms: when the first of them began (wall clock); None: there was none
    :param ended_after_batch: for a stream: the last batch before the last attempt that ended badly; None: unknown
    :param slots: how many slots it was given at its present start
    :param read_to: how far the jobs topic had been read when the task was admitted or restarted: restarts that were
        requested after this offset are still to be done
    :param not_before_ms: start no sooner (monotonic milliseconds)
    :param retry_at_ms: the same by the wall clock, for a worker that gets the task meanwhile; None: no wait
    :param started_at_ms: wall clock of the present start, None before the job's code was called
    :param claim: the claim of its checkpoint, if the task's configuration names one
    :param progress: the last reported progress of the present start
    :param took_before_ms: how long it took in earlier runs of its job
    :param wait_written: while it waits: whether this worker has written that it does
    :param began_ms: since when the job's code may be called (monotonic milliseconds); time limits count from then
    :param adopted_ms: since when this process watches the query, if another one began it (monotonic milliseconds)
    :param handle: the handle of its query, if it may outlive this process; while it is taken over, that of the earlier
        query
    :param after: the handle of the query before this attempt, which has ended
    :param otherwise: the last event of its attempt, if its detached query was never started; None: unknown
    :param let_begin: whether its start is stored in the topic, so that its code may be called
    :param detached: whether it runs without this process
    :param revoked: whether the membership waits for its release
    :param plan: for a planner: the plan that is being written
    :param end: how it ended, while the record of that is being written
    :param number: the number of the record that is being written
    :param give_up_ms: stop trying to store the record at this time (monotonic milliseconds)
    :param failed_on: the workers on which its last attempts have failed
    :param last_try: whether its retries are used up, and it has one try more elsewhere
    :param liveness: whether its stream moves
    :param runs_on: see :class:`~airflow_provider.state.records.TaskStatus`
    """

    work: TaskWork
    epoch: Epoch
    state: RunState = RunState.WAITING
    kind: TaskKind = TaskKind.BATCH
    attempt: int = 1
    failures: int = 0
    forgiven: int = 0
    spark_deaths: int = 0
    process_deaths: int = 0
    alone: bool = False
    died_alone: int = 0
    acquitted: int = 0
    conflicts: int = 0
    conflict_since_ms: int | None = None
    ended_after_batch: int | None = None
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
    adopted_ms: int | None = None
    handle: Any = None
    after: Any = None
    otherwise: Any = None
    let_begin: bool = False
    detached: bool = False
    revoked: bool = False
    plan: PlanRecord | None = None
    end: End | None = None
    number: int = 0
    give_up_ms: int | None = None
    failed_on: tuple[WorkerId, ...] = ()
    last_try: bool = False
    liveness: Liveness = UNMOVED
    runs_on: str = ""

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
        return self.slots if self.state.runs and not self.task.is_planner else 0

    @property
    def began_here(self) -> bool:
        """Whether it was started in this process: it is not detached, and does not only end an earlier query."""
        begun_by_others = self.handle is not None and not self.number
        return not (self.detached or begun_by_others)

    @property
    def is_endless(self) -> bool:
        """Whether it has no end."""
        return self.work.definition.kind is TaskKind.STREAMING and not self.task.is_planner

    @property
    def cost(self) -> float:
        """How much work it is; a stream has no end."""
        return 0.0 if self.kind is TaskKind.STREAMING else cost_of(self.work.weight, self.took_before_ms)

    @property
    def due_ms(self) -> int | None:
        """When it next needs attention without an event: its next attempt may start, its time limit is over, its stream
        has not moved for too long, or its record is given up (monotonic milliseconds).
        """
        if self.state is RunState.WAITING:
            return self.not_before_ms or None
        if self.state is not RunState.STARTED:
            return self.give_up_ms
        over_ms, stalls_ms = self.time_over_ms, self.liveness.stalls_at_ms(self.work.definition.stall_after_ms)
        if over_ms is None or stalls_ms is None:
            return stalls_ms if over_ms is None else over_ms
        return min(over_ms, stalls_ms)

    @property
    def time_over_ms(self) -> int | None:
        """When its time limit is over (monotonic milliseconds). A planner has none."""
        limit_ms = self.work.definition.timeout_ms
        if self.began_ms is None or limit_ms is None or self.task.is_planner:
            return None
        return self.began_ms + limit_ms

    @property
    def needs_process(self) -> bool:
        """Whether it needs this process. A detached task is only watched, and a resting one needs nothing. But nobody
        else knows how an attempt has ended whose query may not have been started.
        """
        return not (self.state.rests or (self.detached and self.otherwise is None))

    @property
    def is_being_ended(self) -> bool:
        """Whether it is detached, and its server is asked to end it. Until this is done, other workers can't tell it
        from a query that ends by itself.
        """
        return self.detached and self.state.told_to_stop

    @property
    def waits_to_begin(self) -> bool:
        """Whether it waits until its start is stored."""
        ready = self.state is RunState.STARTED and self.started_at_ms is not None
        return ready and not (self.let_begin or self.detached)

    @property
    def waits_to_be_read(self) -> bool:
        """Whether it waits until its start is read back, because its query may outlive this process."""
        return self.waits_to_begin and self.handle is not None

    @property
    def plans_again(self) -> bool:
        """Whether this is a planner that plans at intervals: the next worker can make the same plan."""
        return self.task.is_planner and self.work.definition.replan_interval_ms is not None

    def is_of(self, work: TaskWork) -> bool:
        """Whether this work is what runs here."""
        return self.work.is_same(work)

    def failed(self, error: TaskFailure) -> TaskRun:
        return replaced(
            self,
            failures=self.failures + 1,
            died_alone=0,
            conflicts=0,
            conflict_since_ms=None,
            ended_after_batch=self.last_batch,
            error=error,
        )

    def in_conflict(self, wall_ms: int) -> TaskRun:
        """After another writer has ended its attempt."""
        since_ms = self.conflict_since_ms or self.started_at_ms or wall_ms
        return replaced(
            self,
            died_alone=0,
            conflicts=self.conflicts + 1,
            conflict_since_ms=since_ms,
            ended_after_batch=self.last_batch,
        )

    def in_conflict_ms(self, wall_ms: int) -> int:
        """For how long another writer has kept it from running."""
        return max(0, wall_ms - (self.conflict_since_ms or wall_ms))

    def ran_ms(self, now_ms: int) -> int:
        """For how long the job's code may have been called in the present attempt; 0: it has not begun.

        :param now_ms: the monotonic clock
        """
        return 0 if self.began_ms is None else now_ms - self.began_ms

    @property
    def last_batch(self) -> int | None:
        """The last batch of a stream that is known to be committed; None: unknown."""
        return self.progress.batch if isinstance(self.progress, StreamProgress) else self.ended_after_batch

    def failed_at(self, worker: WorkerId, error: TaskFailure) -> TaskRun:
        """An attempt has failed, and the worker may be to blame."""
        others = tuple(each for each in self.failed_on if each != worker)
        return replaced(self.failed(error), failed_on=(*others, worker)[-MOST_FAILED_ON:])

    def ended_otherwise_at(self, worker: WorkerId) -> TaskRun:
        """Its last attempt there has not failed: an earlier failure is no reason any more to try it elsewhere."""
        return replaced(self, failed_on=()) if self.failed_on == (worker,) else self

    def goes_well_at(self, worker: WorkerId) -> TaskRun:
        """It does its work there. If it has only failed elsewhere, it was not to blame for that, and pays nothing."""
        blameless = self.counted_failures > 0 and self.failed_on and worker not in self.failed_on
        return replaced(self, forgiven=self.failures, last_try=False) if blameless else self

    @property
    def may_try_again(self) -> bool:
        """Whether its job allows another try."""
        retries = self.work.definition.retries_of(self.task)
        return retries is None or self.counted_failures <= retries

    @property
    def longest_wait_ms(self) -> int:
        """The longest wait before its next attempt, whatever another host's clock says."""
        definition = self.work.definition
        retry_ms = longest_retry_ms(definition.retry_delay_ms, self.counted_failures)
        return max(retry_ms, conflict_pause_ms(self.conflicts), definition.replan_interval_ms or 0)

    def cut_short(self, refusal: str) -> TaskRun:
        """With a shorter error, because the record of its end was refused for its size."""
        assert self.end is not None
        end = End(state=TaskState.FAILED, at_ms=self.end.at_ms, cut_short=True)
        if self.end.state is TaskState.FAILED and self.error is not None:
            return replaced(self, end=end, error=TaskFailure(message=self.error.message))
        failed = self.failed(TaskFailure.of(f"its result is too large for its record: {refusal}; return less"))
        return replaced(failed, end=end)

    def next_attempt(self, delay_ms: int, *, now_ms: int, wall_ms: int) -> TaskRun:
        return replaced(
            self,
            state=RunState.WAITING,
            attempt=self.attempt + 1,
            started_at_ms=None,
            began_ms=None,
            adopted_ms=None,
            handle=None,
            after=self.handle or self.after,
            otherwise=None,
            let_begin=False,
            alone=False,
            detached=False,
            progress=None,
            liveness=self.liveness.ended(),
            plan=None,
            give_up_ms=None,
            not_before_ms=now_ms + delay_ms,
            retry_at_ms=wall_ms + delay_ms if delay_ms else None,
            wait_written=True,
        )

    def under(self, work: TaskWork, *, now_ms: int, wall_ms: int) -> TaskRun:
        """The same work under a definition with other retries or intervals. No wait gets longer."""
        run = replaced(self, work=work)
        longest_ms = run.longest_wait_ms
        if self.not_before_ms <= now_ms + longest_ms:
            return run
        return replaced(run, not_before_ms=now_ms + longest_ms, retry_at_ms=wall_ms + longest_ms)

    def start(self, slots: int, *, alone: bool = False) -> TaskRun:
        """:param slots: how many it gets
        :param alone: whether it is alone on trial
        """
        return replaced(self, state=RunState.STARTED, retry_at_ms=None, slots=slots, alone=alone)

    def streaming(self, now_ms: int) -> TaskRun:
        """It is a stream, and runs."""
        return replaced(self, kind=TaskKind.STREAMING, liveness=self.liveness.begun(now_ms))

    def with_all_retries(self) -> TaskRun:
        """Without failures, as at the start of this run of the job."""
        return replaced(self, error=None, **ALL_RETRIES)

    def status(self, state: TaskState, worker: WorkerId, **more: object) -> TaskStatus:
        """The record of this state."""
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
            forgiven=self.forgiven,
            spark_deaths=self.spark_deaths,
            process_deaths=self.process_deaths,
            alone=self.alone and state is TaskState.RUNNING,
            died_alone=self.died_alone,
            acquitted=self.acquitted,
            conflicts=self.conflicts,
            conflict_since_ms=self.conflict_since_ms,
            ended_after_batch=self.ended_after_batch,
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
            failed_on=self.failed_on,
            last_try=self.last_try,
            stalled_since_ms=self.liveness.stalled_since_ms if state is TaskState.RUNNING else None,
            runs_on=self.runs_on,
            **more,  # type: ignore[arg-type]  # fields of TaskStatus
        )
