"""Carries out what :mod:`airflow_provider.worker.tasks` decides: hands attempts to a runner, has records written, arms
a timer, and feeds the results back to the machine as events.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.live.timers import Timer, call_at
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.job.checkpoint_folder import CheckpointError
from airflow_provider.spark.runner import (
    LastEvent,
    LineageNamed,
    OnEvent,
    Runner,
    RunnerClosedError,
    RunnerEvent,
    TaskFailed,
    TaskProgressed,
    TaskStopped,
    WarmUpFailed,
)
from airflow_provider.spark.runners.detached_queries import MakeQueries, nothing_detached
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.presence import has_said_that_it_leaves
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.deadlines import Deadline, DeadlineError, wait_at_most
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks
from airflow_provider.values.recent_events import Story
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands.log_levels import LogLevels
from airflow_provider.worker.hands.orders import bare_order, order_of
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.hands.releases import Releases
from airflow_provider.worker.hands.steps import Steps
from airflow_provider.worker.hands.task_records import TaskRecords
from airflow_provider.worker.hands.told_together import ToldTogether
from airflow_provider.worker.tasks import commands, events
from airflow_provider.worker.tasks.machine import handle
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.state import Execution, ExecutionSettings

log = logging.getLogger(__name__)

_STOP_WAIT_S: Final = 30.0
_CLOSE_S: Final = 20.0
"""How long closing takes at most, with everything that it waits for."""
_LAST_WORDS_S: Final = 5.0
_LEAST_S: Final = 0.5
_ROUTINE_EVENTS: Final = (events.TopicsRead, events.TimerFired, TaskProgressed)
_ROUTINE_COMMANDS: Final = (commands.ArmTimer, commands.WriteProgress)


class TaskExecutor:
    """Runs tasks with a runner, and watches detached queries (:class:`~airflow_provider.worker.hands.port.Hands`).

    :param make_runner: makes the runner, given the callback for its events
    :param checkpoint_root: folder or URI of all streaming checkpoints; None: there is none, and no stream runs
    :param stopped: called with tasks that were stopped
    :param finished: called with tasks that have finished or failed
    :param changed: called whenever the state here has changed
    :param log_levels: sets the levels of the jobs' loggers
    :param make_queries: makes the watch of detached queries, given the callback for its events
    :param time_zone: of the sessions of its tasks; empty: unknown
    :param python_time_zone: of the process that runs them; empty: unknown
    """

    def __init__(
        self,
        settings: ExecutionSettings,
        *,
        group_id: str,
        topics: GroupTopics,
        make_runner: Callable[[OnEvent], Runner],
        checkpoint_root: str | None,
        stopped: Released,
        finished: Released,
        changed: Callable[[], None],
        log_levels: LogLevels | None = None,
        make_queries: MakeQueries = nothing_detached,
        time_zone: str = "",
        python_time_zone: str = "",
    ) -> None:
        self.time_zone = time_zone
        self.python_time_zone = python_time_zone
        self._worker = settings.worker
        self._log_levels = log_levels or LogLevels(())
        self._group_id = group_id
        self._topics = topics
        self._checkpoint_root = checkpoint_root
        self._stopped = stopped
        self._finished = finished
        self._changed = changed
        self._steps = Steps(on_fault=changed)
        self._runner = make_runner(lambda event: self._steps.guarded(self._on_event, event))
        self._queries = make_queries(lambda event: self._steps.guarded(self._on_event, event))
        self._for_good = False
        self._read_of_workers = asyncio.Event()
        self._unsubscribes = [
            topics.subscribe(partial(self._steps.guarded, self.refresh), About.ROUNDS),
            topics.subscribe(partial(self._steps.guarded, self._read_if_awaited), About.WORKERS),
        ]
        self._records = TaskRecords(settings.worker, topics, feed=self._feed, steps=self._steps)
        self._execution = Execution(settings, topics.jobs, topics.status, now_ms=now_ms())
        self._story = Story()
        self._told = ToldTogether(self._call_later)
        self._handlers = self._make_handlers()
        self._commands: deque[commands.Command] = deque()
        self._carrying_out = False
        self._to_start: dict[TaskId, TaskRun] = {}
        self._may_start = asyncio.Event()
        self._starter: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._ended: Tasks = NO_TASKS
        self._releases = Releases(self._release_stopped, soon=self._call_soon, later=self._call_later)

    @property
    def running(self) -> Tasks:
        return self._execution.runs.active

    @property
    def attached(self) -> Tasks:
        return self._execution.runs.attached

    @property
    def learning(self) -> Mapping[TaskId, float]:
        return self._execution.learners.progress

    @property
    def failed_warm_ups(self) -> Mapping[TaskId, str]:
        return self._execution.learners.failed

    @property
    def warm_up_deaths(self) -> Mapping[TaskId, int]:
        return self._execution.learners.deaths

    @property
    def condition(self) -> str:
        return self._runner.condition or self._queries.condition

    @property
    def spark_ui(self) -> str:
        return self._runner.spark_ui

    @property
    def allowed(self) -> tuple[str, ...]:
        return self._log_levels.allowed

    @property
    def unable(self) -> str:
        return self._execution.unable

    @property
    def blamed(self) -> str:
        return self._execution.blamed

    @property
    def stopped_running(self) -> int:
        return self._execution.stopped_running

    @property
    def awaits_own_record_since_ms(self) -> int:
        return self._execution.last_words.since_ms

    @property
    def fault(self) -> BaseException | None:
        return self._steps.fault

    @property
    def done(self) -> bool:
        return not self._ended and not self._releases and not self._runner.opening and self._execution.done(now_ms())

    # ---- what is fed to the machine

    def joined(self) -> None:
        self._feed(events.GroupJoined())

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        self._release_ended()
        self._releases.forget(tasks)
        self._read()
        self._feed(events.TasksGiven(tasks=tasks, epoch=epoch))

    def stop(self, tasks: Tasks, reason: str) -> None:
        self._release_ended()
        for_good = self._for_good and reason == StopReason.LEAVING.value
        if StopReason(reason).ends_lease:
            self._releases.wait_for_no_record(tasks)
        self._feed(events.TasksRevoked(tasks=tasks, reason=reason, for_good=for_good))

    def learn(self, tasks: Tasks) -> None:
        self._read()
        self._feed(events.TasksToLearn(tasks=tasks))

    def stop_learning(self, tasks: Tasks) -> None:
        self._feed(events.LearningStopped(tasks=tasks))

    def advance(self, epoch: Epoch) -> None:
        self._read()
        self._feed(events.EpochAdvanced(epoch=epoch))

    def refresh(self) -> None:
        self._read()

    def drain(self) -> None:
        self._feed(events.Drained())

    def let_failed_go(self) -> None:
        self._feed(events.FailedLetGo())

    def leave_for_good(self) -> None:
        """From now on, changes of the workers' own records matter, too."""
        if not self._for_good:
            self._for_good = True
            self._feed(events.LeavesForGood())
            about_workers = self._topics.subscribe(partial(self._steps.guarded, self._workers_read), About.WORKERS)
            self._unsubscribes.append(about_workers)

    def _read_if_awaited(self) -> None:
        """Workers' records alone change nothing here, unless tasks wait for this worker's own."""
        if self._execution.last_words.are_read_in(self._topics.status):
            self._read()

    def _workers_read(self) -> None:
        self._read_of_workers.set()
        self.refresh()

    async def _see_who_stays(self) -> None:
        """Other leaving workers may have left their queries to this one, because it was still there."""

        async def read_own_word() -> None:
            while any(self._topics.status.living()) and not self._has_said_that_it_leaves:
                self._read_of_workers.clear()
                await self._read_of_workers.wait()

        with contextlib.suppress(DeadlineError):
            await wait_at_most(_LAST_WORDS_S, read_own_word())
        self.refresh()

    @property
    def _has_said_that_it_leaves(self) -> bool:
        return has_said_that_it_leaves(self._topics.status, self._worker, self._execution.settings.process)

    def _read(self) -> None:
        jobs, status = self._topics.jobs, self._topics.status
        if jobs.levels or self._log_levels.has_some:
            self._log_levels.follow(jobs.levels_of(self._worker))
        if jobs is not self._execution.jobs or status is not self._execution.status:
            self._feed(events.TopicsRead(jobs=jobs, status=status))

    def _on_event(self, event: RunnerEvent) -> None:
        if isinstance(event, LastEvent):
            self._read()
        if not isinstance(event, LineageNamed):  # only others want to hear of it
            self._feed(event)

    def _on_timer(self) -> None:
        self._feed(events.TimerFired())

    def _feed(self, event: events.Event) -> None:
        """Handle one event, and carry out the commands. Commands of events that are fed meanwhile come after these."""
        self._commands += self._handle(event)
        if self._carrying_out:
            return
        self._carrying_out = True
        try:
            while self._commands:
                command = self._commands.popleft()
                self._handlers[type(command)](command)
        finally:
            self._carrying_out = False
        self._changed()

    def _handle(self, event: events.Event) -> list[commands.Command]:
        """Let the machine handle an event. If it can't, tell the log how it got there."""
        now = now_ms()
        self._execution.lacks = self._queries.lacks
        try:
            done = handle(self._execution, event, now_ms=now, wall_ms=wall_ms())
        except Exception:
            log.error(  # noqa: TRY400  whoever reports the fault also logs its traceback
                "group %s, worker %s: a fault of this program; what happened last:\n%s",
                self._group_id,
                self._worker,
                self._execution.settings.mask(str(self._story)),
            )
            raise
        told = [command for command in done if not isinstance(command, _ROUTINE_COMMANDS)]
        if told or not isinstance(event, _ROUTINE_EVENTS):
            self._story.add(f"{now} ms", event, told)
        return done

    # ---- what the machine wants

    def _make_handlers(self) -> Mapping[type[commands.Command], Callable[[Any], None]]:
        """How each command is carried out."""
        return {
            commands.StartAttempt: self._start_soon,
            commands.StartWarmUp: lambda command: self._warm(command.run),
            commands.StopWarmUp: lambda command: self._runner.stop_warming(command.task),
            commands.StopAttempts: lambda command: self._stop(command.tasks, command.reason),
            commands.StopWatching: lambda command: self._queries.let_go(command.tasks),
            commands.Watch: lambda command: self._queries.watch(bare_order(command.run), command.run.handle),
            commands.TakeOver: lambda command: self._queries.take_over(bare_order(command.run), command.run.handle),
            commands.EndOrphan: lambda command: self._end_orphan(command.status),
            commands.LetBegin: lambda command: self._runner.proceed(command.task),
            commands.WriteStart: self._records.insist,
            commands.WriteStatus: lambda command: self._records.write(command.status),
            commands.WriteProgress: lambda command: self._records.progressed(command.status),
            commands.WriteStopped: lambda command: self._write_stopped(command.status),
            commands.WriteEnd: self._records.insist,
            commands.WritePlan: self._records.insist,
            commands.GiveUpWriting: lambda command: self._records.give_up(command.task),
            commands.ReleaseStopped: lambda command: self._releases.release(command.tasks),
            commands.ReleaseFinished: lambda command: self._release_soon(command.tasks),
            commands.ArmTimer: lambda command: self._arm(command.at_ms),
            commands.Inform: lambda command: log.info("%s", command.message),
            commands.Warn: lambda command: log.warning("%s", command.message),
            commands.TellOfTask: self._told.add,
        }

    def _write_stopped(self, status: TaskStatus) -> None:
        self._records.stopped(status, self._releases.writing(status.task))

    def _release_stopped(self, stopped: Tasks) -> None:
        self._stopped(stopped)
        self._changed()

    def _call_soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(self._steps.guarded, call)

    def _call_later(self, ms: int, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(ms / 1000, self._steps.guarded, call)

    def _end_orphan(self, status: TaskStatus) -> None:
        ended = replaced(status, state=TaskState.STOPPED, worker=self._worker)

        def tell() -> None:
            self._records.stopped(replaced(ended, finished_at_ms=wall_ms()))

        def still() -> bool:
            """Its job may have been resumed or submitted again since."""
            return self._for_good or self._topics.jobs.work_of(status.task) is None

        self._queries.end(status.task, status.handle, tell, still=still)

    def _release_soon(self, ended: Tasks) -> None:
        """Release all tasks that end in this turn of the loop together: each release is an event of the membership."""
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._steps.guarded, self._release_ended)
        self._ended |= ended

    def _release_ended(self) -> None:
        ended, self._ended = self._ended, NO_TASKS
        if ended:
            self._finished(ended)
            self._changed()

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = call_at(at_ms, partial(self._steps.guarded, self._on_timer))

    def _start_soon(self, command: commands.StartAttempt) -> None:
        """Start it in the next turn of the loop: it may still be revoked in this one."""
        self._to_start[command.run.task] = command.run
        self._may_start.set()
        if self._starter is None:
            self._starter = self._steps.spawn(self._start_all())

    async def _start_all(self) -> None:
        while await self._may_start.wait():
            self._may_start.clear()
            while self._to_start:
                run = self._to_start.pop(next(iter(self._to_start)))
                try:
                    await self._runner.start(order_of(run, root=self._checkpoint_root, group_id=self._group_id))
                except CheckpointError as wrong:
                    order = bare_order(run)
                    self._feed(TaskFailed(order=order, error=str(wrong), retryable=False))
                except RunnerClosedError:
                    self._never_began(run)

    def _warm(self, run: TaskRun) -> None:
        try:
            self._runner.warm(order_of(run, root=self._checkpoint_root, group_id=self._group_id))
        except CheckpointError as wrong:
            self._feed(WarmUpFailed(order=bare_order(run), error=str(wrong)))

    def _stop(self, tasks: Tasks, reason: str) -> None:
        for task in tasks & self._to_start.keys():
            self._never_began(self._to_start.pop(task))
            tasks -= {task}
        tasks = self._queries.stop(tasks, reason)
        if tasks:
            self._steps.spawn(self._stop_until_stopped(tasks, reason))

    async def _stop_until_stopped(self, tasks: Tasks, reason: str) -> None:
        """Repeat the stop while a task runs: it may start Spark jobs after it was told to stop."""
        while tasks:
            tasks = await self._runner.stop(tasks, reason, timeout_s=_STOP_WAIT_S)

    def _never_began(self, run: TaskRun) -> None:
        self._runner.stop_warming(run.task)  # the attempt would have continued with the warm-up
        self._feed(TaskStopped(order=bare_order(run), reason="it never began"))

    async def close(self) -> None:
        deadline = Deadline(_CLOSE_S)
        if self._for_good:
            await self._see_who_stays()
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._log_levels.restore()
        self._feed(events.Closed())
        self._stop(frozenset(self._to_start), "the worker is closing")
        if self._starter is not None:
            self._starter.cancel()
        if running := self._runner.running | self._queries.running:
            log.info(
                "worker %s waits up to %g s until these have stopped: %s", self._worker, _CLOSE_S, self._say(running)
            )
        # What is being stopped goes on stopping while something else is waited for.
        left = await self._runner.close(timeout_s=deadline.left_s(but_s=_LAST_WORDS_S, least_s=_LEAST_S))
        await self._queries.close(timeout_s=deadline.left_s(but_s=_LAST_WORDS_S, least_s=_LEAST_S))
        if left:
            log.warning("worker %s: still running at its end: %s", self._worker, self._say(left))
        last_words = Deadline(min(_LAST_WORDS_S, deadline.left_s(least_s=_LEAST_S)))
        await self._records.settle_ends(last_words.left_s())
        self._told.tell_all()
        self._release_ended()
        self._releases.release_all()
        await self._steps.cancel()
        await self._records.flush(last_words.left_s(least_s=_LEAST_S))
        if self._timer is not None:
            self._timer.cancel()

    def _say(self, tasks: Tasks) -> str:
        return in_short([self._topics.jobs.label(task) for task in sorted(tasks)], most=10)
