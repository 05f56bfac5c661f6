"""Runs a worker's tasks: slots, attempts, retries, and a record in the status topic for every step.

A task that came to its end is released only after the status topic has said so: the next leader then never takes it
for lost. A task that was stopped is released at once, because somebody may be waiting for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from airflow_provider.kafka.log_errors import LogError
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.records import JobError, PlanRecord, TaskFailure, TaskKind, TaskState, TaskStatus
from airflow_provider.membership.model import Epoch, TaskId, Tasks, WorkerId
from airflow_provider.spark.checkpoints import CheckpointError, checkpoint_location
from airflow_provider.spark.runner import (
    OnEvent,
    QueryStarted,
    Runner,
    RunnerClosedError,
    RunnerEvent,
    StillRunningError,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.worker.hands import Released
from airflow_provider.worker.runs import RunState, TaskRun, first_run, needs_running, next_due_ms, startable

log = logging.getLogger(__name__)

_STOP_WAIT_S: Final = 30.0
_RETRY_WRITE_S: Final = 1.0


class TaskExecutor:
    """Runs tasks (:class:`~airflow_provider.worker.hands.Hands`) with a runner of attached tasks.

    :param make_runner: makes the runner, given whom it shall tell of its events
    :param slots: how many tasks run at once
    :param checkpoint_root: folder or URI of all streaming checkpoints
    :param stopped: told of tasks that were stopped
    :param finished: told of tasks that came to their end
    :param changed: told whenever something else may depend on what runs here
    :param linger_s: how long there must be nothing to do until the membership had better go on without this process
    """

    def __init__(
        self,
        *,
        worker: WorkerId,
        group_id: str,
        logs: GroupLogs,
        make_runner: Callable[[OnEvent], Runner],
        slots: int,
        checkpoint_root: str,
        stopped: Released,
        finished: Released,
        changed: Callable[[], None],
        linger_s: float,
    ) -> None:
        self._worker = worker
        self._group_id = group_id
        self._logs = logs
        self._runner = make_runner(self._on_event)
        self._slots = slots
        self._checkpoint_root = checkpoint_root
        self._stopped = stopped
        self._finished = finished
        self._changed = changed
        self._linger_s = linger_s
        self._linger_timer: asyncio.TimerHandle | None = None
        self._idle()
        self._runs: dict[TaskId, TaskRun] = {}
        self._work: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.ended: list[TaskStatus] = []

    @property
    def running(self) -> Tasks:
        return frozenset(task for task, run in self._runs.items() if run.state is not RunState.WAITING)

    @property
    def done(self) -> bool:
        return not self._runs and time.monotonic() - self._idle_since >= self._linger_s

    # ---- what the membership says

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        unneeded = frozenset(task for task in tasks if not self._admit(task, epoch))
        if unneeded:
            self._finished(unneeded)
        self._schedule()

    def drop(self, tasks: Tasks, reason: str) -> None:
        waiting = frozenset(task for task in tasks if self._state(task) in (None, RunState.WAITING))
        for task in waiting:
            run = self._runs.pop(task, None)
            if run is not None:
                self._report(run.status(TaskState.STOPPED, self._worker))
        for task in tasks - waiting:
            self._set(task, state=RunState.STOPPING)
        self._idle()
        if waiting:
            self._stopped(waiting)
        if tasks - waiting:
            self._spawn(self._stop(tasks - waiting, reason))
        self._schedule()

    def advance(self, epoch: Epoch) -> None:
        for task in self._runs:
            self._set(task, epoch=epoch)

    def refresh(self) -> None:
        """Stop what is no longer configured; start anew what is configured otherwise."""
        for task, run in list(self._runs.items()):
            work = self._logs.jobs.work_of(task)
            if run.state not in (RunState.WAITING, RunState.STARTED):
                continue
            if work is None:
                self._forget_or_stop(run, RunState.STOPPING, "it is no longer configured")
            elif (work.fingerprint, work.definition.run_key) != (run.work.fingerprint, run.work.definition.run_key):
                self._forget_or_stop(run, RunState.RESTARTING, "its configuration has changed")
        self._schedule()

    async def close(self) -> None:
        for timer in (self._timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        left = await self._runner.close()
        if left:
            log.warning("worker %s: still running at the end: %s", self._worker, ", ".join(map(str, sorted(left))))
        await asyncio.gather(*self._work, return_exceptions=True)

    # ---- starting and stopping

    def _admit(self, task: TaskId, epoch: Epoch) -> bool:
        """Take a task in, unless it is already over."""
        jobs, statuses = self._logs.jobs, self._logs.status.tasks
        work = jobs.work_of(task)
        if work is None or not needs_running(task, jobs, statuses):
            return False
        run = first_run(work, epoch, statuses.get(task))
        self._runs[task] = run
        self._report(run.status(TaskState.PENDING, self._worker))
        return True

    def _forget_or_stop(self, run: TaskRun, state: RunState, reason: str) -> None:
        if run.state is RunState.STARTED:
            self._set(run.task, state=state)
            self._spawn(self._stop(frozenset({run.task}), reason))
            return
        del self._runs[run.task]
        if not (state is RunState.RESTARTING and self._admit(run.task, run.epoch)):
            self._finished(frozenset({run.task}))

    def _schedule(self) -> None:
        now = _now_ms()
        for task in startable(self._runs, slots=self._slots, now_ms=now):
            self._set(task, state=RunState.STARTED)
            self._spawn(self._start(self._runs[task]))
        due = next_due_ms(self._runs, now_ms=now)
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if due is None else loop.call_at((due + 1) / 1000, self._schedule)
        self._changed()

    async def _start(self, run: TaskRun) -> None:
        definition = run.work.definition
        order = TaskOrder(
            task=run.task,
            entry_point=definition.entry_point,
            config=run.work.config,
            epoch=run.epoch,
            attempt=run.attempt,
            run_key=definition.run_key or None,
            max_tasks=definition.max_tasks,
        )
        try:
            location = checkpoint_location(self._checkpoint_root, self._group_id, run.task, run.work.config)
            await self._runner.start(replace(order, checkpoint_location=location))
        except (CheckpointError, StillRunningError, RunnerClosedError) as refused:
            self._on_event(TaskFailed(order=order, error=str(refused), traceback="", retryable=False))

    async def _stop(self, tasks: Tasks, reason: str) -> None:
        left = tasks
        while left:
            left = await self._runner.stop(left, reason, timeout_s=_STOP_WAIT_S)
            if left:
                log.warning(
                    "worker %s: told to stop %.0f s ago and still running: %s (does the job look at task.stopping?)",
                    self._worker,
                    _STOP_WAIT_S,
                    ", ".join(map(str, sorted(left))),
                )

    # ---- what the runner says

    def _on_event(self, event: RunnerEvent) -> None:
        run = self._runs.get(event.order.task)
        if run is None:
            return
        match event:
            case TaskStarted():
                self._set(run.task, started_at_ms=_wall_ms())
                self._report(self._runs[run.task].status(TaskState.RUNNING, self._worker))
            case QueryStarted():
                self._set(run.task, kind=TaskKind.STREAMING)
                self._report(self._runs[run.task].status(TaskState.RUNNING, self._worker))
            case TaskFinished():
                self._spawn(self._finish(run, event.result))
            case TaskFailed():
                self._on_failed(run, event)
            case TaskStopped():
                self._on_stopped(run)
        self._changed()

    def _on_stopped(self, run: TaskRun) -> None:
        self._report(run.status(TaskState.STOPPED, self._worker, finished_at_ms=_wall_ms()))
        del self._runs[run.task]
        if run.state is RunState.RESTARTING and self._admit(run.task, run.epoch):
            self._schedule()
            return
        self._idle()
        self._stopped(frozenset({run.task}))
        self._schedule()

    def _on_failed(self, run: TaskRun, event: TaskFailed) -> None:
        if run.state is not RunState.STARTED:
            self._on_stopped(run)
            return
        failed = replace(run, failures=run.failures + 1, error=TaskFailure.of(event.error, event.traceback))
        log.warning("task %s failed at attempt %d: %s", run.task, run.attempt, event.error)
        policy = run.work.definition
        if event.retryable and failed.failures <= policy.retries:
            self._runs[run.task] = replace(
                failed,
                state=RunState.WAITING,
                attempt=run.attempt + 1,
                started_at_ms=None,
                not_before_ms=_now_ms() + policy.retry_delay_ms,
            )
            self._report(self._runs[run.task].status(TaskState.PENDING, self._worker))
            self._schedule()
        else:
            self._runs[run.task] = replace(failed, state=RunState.CLOSING)
            self._spawn(self._close_run(self._runs[run.task], TaskState.FAILED, None))

    async def _finish(self, run: TaskRun, result: Any) -> None:
        self._set(run.task, state=RunState.CLOSING)
        if not run.task.is_planner:
            await self._close_run(run, TaskState.FINISHED, result)
            return
        definition = run.work.definition
        try:
            plan = PlanRecord.of(definition, result, planned_by=self._worker, at_ms=_wall_ms())
        except JobError as wrong:
            failed = replace(run, failures=run.failures + 1, error=TaskFailure.of(str(wrong)))
            await self._close_run(failed, TaskState.FAILED, None)
            return
        known = self._logs.jobs.plan_of(definition.name)
        if known is None or known.configs != plan.configs:
            await self._write(run, lambda: self._logs.publish_plan(plan))
        if definition.replan_interval_ms is None:
            await self._close_run(run, TaskState.FINISHED, {"tasks": len(plan.configs)})
        elif run.task in self._runs:
            self._set(
                run.task,
                state=RunState.WAITING,
                attempt=run.attempt + 1,
                started_at_ms=None,
                not_before_ms=_now_ms() + definition.replan_interval_ms,
            )
            self._schedule()

    async def _close_run(self, run: TaskRun, state: TaskState, result: Any) -> None:
        """Write a task's last record, then release it."""
        ended_at = _wall_ms()

        def status() -> TaskStatus:
            epoch = self._runs[run.task].epoch if run.task in self._runs else run.epoch
            return replace(run, epoch=epoch).status(state, self._worker, finished_at_ms=ended_at, result=result)

        await self._write(run, lambda: self._logs.publish_task(status()))
        self.ended.append(status())
        self._runs.pop(run.task, None)
        self._idle()
        self._finished(frozenset({run.task}))
        self._schedule()

    # ---- bookkeeping

    def _state(self, task: TaskId) -> RunState | None:
        run = self._runs.get(task)
        return run.state if run else None

    def _set(self, task: TaskId, **changes: Any) -> None:
        if task in self._runs:
            self._runs[task] = replace(self._runs[task], **changes)

    def _idle(self) -> None:
        """Something ended; look again when there has been nothing to do for long enough."""
        self._idle_since = time.monotonic()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self._linger_timer = asyncio.get_running_loop().call_later(self._linger_s, self._changed)

    def _report(self, status: TaskStatus) -> None:
        self._spawn(self._try_to_write(status))

    async def _try_to_write(self, status: TaskStatus) -> None:
        """A step that nobody waits for: the next step's record will do."""
        try:
            await self._logs.publish_task(status)
        except LogError as failed:
            log.warning("task %s: that it is %s was not written: %s", status.task, status.state.value, failed)

    async def _write(self, run: TaskRun, write: Callable[[], Awaitable[None]]) -> None:
        """Write what must not be lost, again and again while the task is this worker's."""
        while True:
            try:
                await write()
            except LogError as failed:
                log.warning("task %s: its end was not written, trying again: %s", run.task, failed)
                if run.task not in self._runs:
                    return
                await asyncio.sleep(_RETRY_WRITE_S)
            else:
                return

    def _spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("worker %s: a step of its own failed", self._worker, exc_info=task.exception())


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _wall_ms() -> int:
    return int(time.time() * 1000)
