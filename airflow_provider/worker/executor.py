"""Runs a worker's tasks: slots, attempts, retries, and a record in the status topic for every step.

That a task waits for its first start is no step: the group's record says who has it, and thousands may wait. So nothing
is written of a task that never started here, unless an older record of it would be taken for how it is now.

A task that came to its end is released only after the status topic has said so: the next leader then never takes it
for lost. A task that was stopped is released at once, because somebody may be waiting for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from airflow_provider.group.timers import Timer, call_at
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import needs_running
from airflow_provider.ledger.records import JobError, PlanRecord, TaskFailure, TaskKind, TaskState
from airflow_provider.protocol.model import NO_TASKS, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.spark.checkpoints import CheckpointError, checkpoint_location, checkpoint_root
from airflow_provider.spark.failures import Mask, nothing_secret
from airflow_provider.spark.runner import (
    OnEvent,
    QueryProgressed,
    QueryStarted,
    Runner,
    RunnerClosedError,
    RunnerEvent,
    SparkAbsent,
    SparkLost,
    TaskFailed,
    TaskFinished,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.topics.errors import TooLargeError
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.claim_watch import ClaimWatch
from airflow_provider.worker.hands import Released
from airflow_provider.worker.linger import Linger
from airflow_provider.worker.replanning import in_known_order
from airflow_provider.worker.run_table import RunTable
from airflow_provider.worker.runs import (
    RunState,
    TaskRun,
    ended_elsewhere,
    first_run,
    is_said_to_run,
    says_that_it_was_released,
)
from airflow_provider.worker.spark_restarts import SparkRestarts
from airflow_provider.worker.steps import Steps
from airflow_provider.worker.task_records import TaskRecords
from airflow_provider.worker.time_limits import TimeLimits

log = logging.getLogger(__name__)

_STOP_WAIT_S: Final = 30.0
_CLOSE_WAIT_S: Final = 10.0
_LAST_WORDS_S: Final = 5.0
_MOST_SAID: Final = 100
"""Of more waiting tasks than these nothing is said in one round: thousands of words would hold up the whole group."""


class TaskExecutor:
    """Runs tasks (:class:`~airflow_provider.worker.hands.Hands`) with a runner of attached tasks.

    :param make_runner: makes the runner, given whom it shall tell of its events
    :param slots: how many tasks run at once
    :param checkpoint_root: folder or URI of all streaming checkpoints; None: it has none, and runs no stream
    :param stopped: told of tasks that were stopped
    :param finished: told of tasks that came to their end
    :param changed: told whenever something else may depend on what runs here
    :param lease_ms: how long this process may go on when another has taken its worker's name
    :param mask: takes secrets out of what is told of errors
    :param max_spark_deaths: a task under which Spark has ended so often fails
    :param linger_s: how long there must be nothing to do until the membership had better go on without this process
    """

    def __init__(
        self,
        *,
        worker: WorkerId,
        group_id: str,
        topics: GroupTopics,
        make_runner: Callable[[OnEvent], Runner],
        slots: int,
        checkpoint_root: str | None,
        stopped: Released,
        finished: Released,
        changed: Callable[[], None],
        linger_s: float,
        lease_ms: int,
        mask: Mask = nothing_secret,
        max_spark_deaths: int,
    ) -> None:
        self._worker = worker
        self._group_id = group_id
        self._topics = topics
        self._steps = Steps(on_fault=changed)
        self._runner = make_runner(lambda event: self._steps.guarded(lambda: self._on_event(event)))
        self._slots = slots
        self._checkpoint_root = checkpoint_root
        self._stopped = stopped
        self._finished = finished
        self._changed = changed
        self._mask = mask
        self._records = TaskRecords(worker, topics)
        self._runs = RunTable()
        self._restarts = SparkRestarts(max_spark_deaths)
        self._claims = ClaimWatch(
            self._runs, topics, lease_ms=lease_ms, look_again=lambda: self._steps.guarded(self._press_claims)
        )
        self._limits = TimeLimits(lambda task, reason: self._steps.guarded(lambda: self._on_time_over(task, reason)))
        self._compared_with: JobsSnapshot | None = None
        self._closings: dict[TaskId, asyncio.Task[None]] = {}
        self._timer: Timer | None = None
        self._linger = Linger(linger_s, changed)
        self._closed = False
        self.unable = ""
        self.stopped_running = 0

    @property
    def running(self) -> Tasks:
        return self._runs.active

    @property
    def condition(self) -> str:
        return self._runner.condition

    @property
    def fault(self) -> BaseException | None:
        return self._steps.fault

    @property
    def done(self) -> bool:
        return not self._runs and self._linger.over

    # ---- what the membership says

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        unneeded = frozenset(task for task in tasks if not self._take(task, epoch))
        if unneeded:
            self._stopped(unneeded)
        self._schedule()

    def drop(self, tasks: Tasks, reason: str) -> None:
        self.stopped_running += sum(self._runs[task].takes_slot for task in tasks & self.running)
        at_once = frozenset(task for task in tasks if self._ends_at_once(task))
        closing = frozenset(task for task in tasks - at_once if self._state(task) is RunState.CLOSING)
        for task in at_once:
            if task in self._closings:
                self._closings.pop(task).cancel()
            run = self._runs.pop(task, None)
            if run is not None and run.state is RunState.WAITING and run.claim is None:
                self._records.remember_stopped(run)
            elif run is not None:
                self._records.stopped(run, started=False)
        self._linger.begin()
        if at_once:
            self._stopped(at_once)
        for task in closing:
            self._limit_last_words(task)
        self._stop(tasks - at_once - closing, RunState.STOPPING, reason)
        self._schedule()

    def advance(self, epoch: Epoch) -> None:
        statuses, mistakable = self._topics.status.tasks, []
        for task, run in self._runs.items():
            kept = run.state is RunState.WAITING and not run.wait_written and run.epoch < epoch
            if kept and says_that_it_was_released(statuses.get(task), self._worker):
                mistakable.append(task)
            self._runs[task] = replace(run, epoch=epoch)
        for task in mistakable[:_MOST_SAID]:
            self._say_that_it_waits(self._runs[task])

    def refresh(self) -> None:
        """Stop what is no longer configured; start anew what is configured otherwise; retry as is said by now."""
        jobs = self._topics.jobs
        if jobs is self._compared_with:
            if self._runs.claiming:
                self._schedule()
            return
        self._compared_with = jobs
        self._records.forget_removed_jobs()
        released: set[TaskId] = set()
        for run in list(self._runs.values()):
            if run.state not in (RunState.WAITING, RunState.STARTED, RunState.TIMED_OUT):
                continue
            work = jobs.work_of(run.task)
            if work is None:
                released |= self._withdraw(run, RunState.STOPPING, "it is no longer configured")
            elif not run.is_of(work):
                released |= self._withdraw(run, RunState.RESTARTING, "its configuration has changed")
            elif run.work.definition is not work.definition:
                run = run.under(work, now_ms=now_ms(), wall_ms=wall_ms())
                no_plan = run.task.is_planner and jobs.plan_of(run.task.job) is None
                self._runs[run.task] = replace(run, not_before_ms=0, retry_at_ms=None) if no_plan else run
                self._limits.renew(run)
        if released:
            self._linger.begin()
            self._stopped(frozenset(released))
        self._schedule()

    def drain(self) -> None:
        self._slots = 0  # planners need none

    async def close(self) -> None:
        self._slots, self._closed = 0, True
        self._claims.close()
        self._limits.close()
        self._linger.close()
        if self._timer is not None:
            self._timer.cancel()
        left = await self._runner.close(timeout_s=_CLOSE_WAIT_S)
        if left:
            labels = map(self._topics.jobs.label, sorted(left))
            log.warning("worker %s: still running at its end: %s", self._worker, ", ".join(labels))
        if self._closings:
            await asyncio.wait(self._closings.values(), timeout=_LAST_WORDS_S)
        await self._steps.cancel()
        await self._records.flush(_LAST_WORDS_S)

    # ---- starting

    def _take(self, task: TaskId, epoch: Epoch) -> bool:
        """Take a task in, unless it is already over."""
        if self._state(task) is RunState.STOPPING:
            self._set(task, state=RunState.RESTARTING, epoch=epoch)
        return task in self._runs or self._admit(task, epoch)

    def _admit(self, task: TaskId, epoch: Epoch) -> bool:
        jobs, statuses = self._topics.jobs, self._topics.status.tasks
        work = jobs.work_of(task)
        if work is None or not needs_running(task, jobs, statuses):
            return False
        last = self._records.last_word(task)
        run = first_run(work, epoch, last, now_ms=now_ms(), wall_ms=wall_ms())
        run = self._runs[task] = replace(run, claim=self._claims.claim_of(work))
        self._restarts.admit(run)
        if run.claim is not None or is_said_to_run(last):
            self._say_that_it_waits(run)
        return True

    def _say_that_it_waits(self, run: TaskRun) -> None:
        self._set(run.task, wait_written=True)
        self._records.pending(run)

    def _schedule(self) -> None:
        now, wall = now_ms(), wall_ms()
        if not self._closed and not self.unable and not self._restarts.holds(now):
            blocked = self._restarts.blocked(self._runs, self._claims.blocked(), now_ms=now, wall_ms=wall)
            for task in self._runs.start_next(slots=self._slots, now_ms=now, blocked=blocked):
                self._steps.spawn(self._start(task))
        due = self._restarts.due_ms(self._runs, self._runs.next_due_ms(now_ms=now), now_ms=now, wall_ms=wall)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due is None else call_at(due, lambda: self._steps.guarded(self._schedule))
        self._changed()

    def _press_claims(self) -> None:
        for task in self._claims.unread():
            self._records.pending(self._runs[task])
        self._schedule()

    async def _start(self, task: TaskId) -> None:
        run = self._runs[task]
        order = run.order()
        if run.state is not RunState.STARTED:
            self._on_stopped(run)  # told to stop before it began
            return
        if ended_elsewhere(run, self._topics.status.tasks):
            self._release(task)
            return
        try:
            root = checkpoint_root(self._checkpoint_root, task, bounded=order.bounded)
            location = checkpoint_location(root, self._group_id, task, run.work.config)
            await self._runner.start(replace(order, checkpoint_location=location))
        except CheckpointError as wrong:
            self._on_event(TaskFailed(order=order, error=str(wrong), traceback="", retryable=False))
        except RunnerClosedError as closed:
            self._on_event(TaskStopped(order=order, reason=str(closed)))

    def _release(self, task: TaskId) -> None:
        """Nothing of it runs here any more, and all has been said of it."""
        del self._runs[task]
        self._linger.begin()
        self._stopped(frozenset({task}))
        self._schedule()

    # ---- stopping

    def _withdraw(self, run: TaskRun, state: RunState, reason: str) -> Tasks:
        """:returns: the task, if nothing of it is left here"""
        if run.state is not RunState.WAITING:
            self._stop(frozenset({run.task}), state, reason)
            return NO_TASKS
        del self._runs[run.task]
        if state is RunState.RESTARTING and self._admit(run.task, run.epoch):
            return NO_TASKS
        if (
            run.wait_written or run.task.job in self._topics.jobs.jobs
        ):  # else its job is gone, and nothing was said of it
            self._records.stopped(run, started=False)
        return frozenset({run.task})

    def _ends_at_once(self, task: TaskId) -> bool:
        """Whether nothing of it runs: also a planner whose plan is being written and who would plan again later. It has
        no last words to wait for; whoever plans next makes the same plan.
        """
        run = self._runs.get(task)
        if run is None or run.state is RunState.WAITING:
            return True
        return run.state is RunState.CLOSING and task.is_planner and run.work.definition.replan_interval_ms is not None

    def _stop(self, tasks: Tasks, state: RunState, reason: str) -> None:
        for task in tasks:
            self._set(task, state=state)
        if tasks:
            self._steps.spawn(self._stop_until_stopped(tasks, reason))

    async def _stop_until_stopped(self, tasks: Tasks, reason: str) -> None:
        """Spark jobs that a task starts after it was told to stop are cancelled, too, as long as it runs."""
        while tasks:
            tasks = await self._runner.stop(tasks, reason, timeout_s=_STOP_WAIT_S)

    def _limit_last_words(self, task: TaskId) -> None:
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._give_up, task, self._closings[task])

    def _give_up(self, task: TaskId, closing: asyncio.Task[None]) -> None:
        """Somebody waits for a task that has ended, and its last record can't be written: it has to run again."""
        if self._closings.get(task) is not closing:
            return
        closing.cancel()
        run = self._runs[task]
        self._records.stopped(run)
        del self._closings[task]
        label = run.order().label
        log.warning("task %s has ended, but its last record could not be written: it will run again", label)
        self._release(task)

    # ---- what the runner says

    def _on_event(self, event: RunnerEvent) -> None:
        run = self._runs.get(event.order.task)
        if run is None:
            return
        match event:
            case TaskStarted():
                self._limits.began(run)
                self._set(run.task, started_at_ms=wall_ms())
                self._records.running(self._runs[run.task])
            case QueryStarted() | QueryProgressed():
                self._on_query(run, event)
            case _:
                self._limits.ended(run.task)
                self._on_last_event(run, event)
        self._changed()

    def _on_last_event(self, run: TaskRun, event: RunnerEvent) -> None:
        match event:
            case TaskFinished() if run.state is not RunState.RESTARTING:
                self._close(run, self._finish(run, event.result))
            case TaskFailed() if run.state is RunState.STARTED:
                self._on_failed(run, event)
            case SparkLost() | SparkAbsent() if run.state is RunState.STARTED:
                self._on_no_spark(run, event)
            case TaskFailed() | TaskStopped() | SparkLost() | SparkAbsent() if run.state is RunState.TIMED_OUT:
                self._try_again(run)
            case _:
                self._on_stopped(run)

    def _on_query(self, run: TaskRun, event: QueryStarted | QueryProgressed) -> None:
        if isinstance(event, QueryStarted):
            self._set(run.task, kind=TaskKind.STREAMING)
            self._records.running(self._runs[run.task])
        elif run.state is RunState.STARTED:
            self._runs[run.task] = run.progressed(event.progress, wall_ms())
            self._records.progressed(self._runs[run.task])

    def _on_stopped(self, run: TaskRun) -> None:
        del self._runs[run.task]
        self._records.stopped(run)
        if not (run.state is RunState.RESTARTING and self._admit(run.task, run.epoch)):
            self._linger.begin()
            self._stopped(frozenset({run.task}))
        self._schedule()

    def _on_failed(self, run: TaskRun, event: TaskFailed) -> None:
        log.debug("task %s failed at attempt %d: %s", run.task, run.attempt, event.error)
        failed = run.failed(self._failure(event.error, event.traceback))
        if event.retryable:
            self._try_again(failed)
        else:
            self._close(failed, self._end(failed, TaskState.FAILED, None))

    def _try_again(self, failed: TaskRun) -> None:
        """As often as its job says."""
        policy = failed.work.definition
        if failed.failures <= policy.retries:
            self._wait_for_next(failed, policy.retry_delay_ms)
        else:
            self._close(failed, self._end(failed, TaskState.FAILED, None))

    def _on_no_spark(self, run: TaskRun, event: SparkLost | SparkAbsent) -> None:
        if isinstance(event, SparkAbsent):
            self.unable = event.error
        else:
            run = self._restarts.lost(self._runs, event, now_ms=now_ms(), wall_ms=wall_ms())
        if run.started_at_ms is None:
            self._set(run.task, state=RunState.WAITING)  # the attempt is still to come
            self._schedule()
        elif self._restarts.condemns(run):
            self._close(run, self._end(run, TaskState.FAILED, None))
        else:
            self._wait_for_next(run, 0)

    def _on_time_over(self, task: TaskId, reason: str) -> None:
        """It counts as a failure from now on, whatever else has the task stopped until its end."""
        run = self._runs.get(task)
        if run is not None and run.state is RunState.STARTED:
            self._runs[task] = run.failed(self._failure(reason))
            self._stop(frozenset({task}), RunState.TIMED_OUT, reason)

    def _failure(self, message: str, traceback: str = "") -> TaskFailure:
        return TaskFailure.of(self._mask(message), self._mask(traceback))

    def _wait_for_next(self, run: TaskRun, delay_ms: int) -> None:
        self._runs[run.task] = waiting = run.next_attempt(delay_ms, now_ms=now_ms(), wall_ms=wall_ms())
        self._records.pending(waiting)
        self._schedule()

    # ---- ends

    def _close(self, run: TaskRun, last_words: Coroutine[Any, Any, None]) -> None:
        self._runs[run.task] = replace(run, state=RunState.CLOSING)
        self._closings[run.task] = self._steps.spawn(last_words)
        if run.state is RunState.STOPPING:
            self._limit_last_words(run.task)

    async def _finish(self, run: TaskRun, result: Any) -> None:
        if run.task.is_planner:
            await self._finish_planner(run, result)
        else:
            await self._end(run, TaskState.FINISHED, result)

    async def _finish_planner(self, run: TaskRun, configs: Any) -> None:
        definition = run.work.definition
        try:
            plan = PlanRecord.of(definition, configs, planned_by=self._worker, at_ms=wall_ms())
            jobs = self._topics.jobs
            plan = in_known_order(plan, jobs.plans.get(definition.name))
            known = jobs.plan_of(definition.name)
            if definition.name in jobs.jobs and (known is None or known.configs != plan.configs):
                await self._records.plan(plan)
        except (JobError, TooLargeError) as wrong:
            advice = "" if isinstance(wrong, JobError) else "; make fewer tasks, or smaller configs"
            await self._end(run.failed(self._failure(f"{wrong}{advice}")), TaskState.FAILED, None)
            return
        if definition.replan_interval_ms is None:
            await self._end(run, TaskState.FINISHED, {"tasks": len(plan.configs)})
        else:
            del self._closings[run.task]
            planned = replace(self._runs[run.task], failures=0, error=None)
            self._wait_for_next(planned, definition.replan_interval_ms)
            self._compared_with = None  # whatever came while its plan was being written
            self.refresh()

    async def _end(self, run: TaskRun, state: TaskState, result: Any) -> None:
        """Write a task's last record, then release it. One that has too much in it is written without that."""
        ended_at = wall_ms()
        try:
            await self._insist_on_end(run, state, ended_at, result)
        except TooLargeError as wrong:
            await self._insist_on_end(run.cut_short(state, str(wrong)), TaskState.FAILED, ended_at, None)
        del self._closings[run.task], self._runs[run.task]
        self._linger.begin()
        self._finished(frozenset({run.task}))
        self._schedule()

    async def _insist_on_end(self, run: TaskRun, state: TaskState, ended_at_ms: int, result: Any) -> None:
        await self._records.ended(
            run,
            state,
            present_epoch=lambda: self._runs[run.task].epoch,
            ended_at_ms=ended_at_ms,
            result=result,
        )

    # ---- bookkeeping

    def _state(self, task: TaskId) -> RunState | None:
        run = self._runs.get(task)
        return run.state if run else None

    def _set(self, task: TaskId, **changes: Any) -> None:
        self._runs[task] = replace(self._runs[task], **changes)
