"""Hands that run nothing, for a worker that is held in a triggerer: they notice that there is something to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from airflow_provider.ledger.progress import has_failed, may_run, needs_running
from airflow_provider.protocol.model import Epoch, TaskId, Tasks
from airflow_provider.runs.warm_up_deaths import deaths_after
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.hands import Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.worker import MakeHands


class Standby:
    """They are done when there is something to run or to learn, and that may be done.

    :param needs_running: whether a task that was assigned is still to be run
    :param has_failed: whether it keeps its place instead, until somebody has it tried again
    :param may_run: whether that may be now: a job that is paused is waited for here
    :param stopped: called with tasks that were to stop, or need no running (none ever ran)
    :param changed: called when they may be done
    :param pause_s: a process that runs tasks is wanted no sooner
    :param warm_up_deaths: what the process before has left for the next one that runs tasks
    :param allowed: what that one has said that it may import
    """

    running: Tasks = frozenset()
    attached: Tasks = frozenset()
    learning: Mapping[TaskId, float] = MappingProxyType({})
    failed_warm_ups: Mapping[TaskId, str] = MappingProxyType({})
    stopped_running = 0
    fault: BaseException | None = None
    condition = unable = spark_ui = ""

    def __init__(
        self,
        needs_running: Callable[[TaskId], bool],
        has_failed: Callable[[TaskId], bool],
        may_run: Callable[[TaskId], bool],
        stopped: Released,
        changed: Callable[[], None],
        pause_s: float,
        warm_up_deaths: Mapping[TaskId, int] = MappingProxyType({}),
        allowed: tuple[str, ...] | None = None,
    ) -> None:
        self.allowed = allowed
        self.warm_up_deaths = warm_up_deaths
        self._needs_running = needs_running
        self._has_failed = has_failed
        self._keeps_failed = True
        self._may_run = may_run
        self._stopped = stopped
        self._changed = changed
        self._waiting: set[TaskId] = set()
        self._something_to_run = False
        self._to_learn: set[TaskId] = set()
        loop = asyncio.get_running_loop()
        self._not_before = loop.time() + pause_s
        self._timer = loop.call_at(self._not_before, changed)

    @property
    def done(self) -> bool:
        return (
            self._something_to_run or bool(self._to_learn)
        ) and asyncio.get_running_loop().time() >= self._not_before

    def joined(self) -> None: ...

    def take(self, tasks: Tasks, epoch: Epoch) -> None:  # noqa: ARG002
        self._waiting |= tasks
        self._to_learn -= tasks
        self.refresh()
        self._changed()

    def stop(self, tasks: Tasks, reason: str) -> None:  # noqa: ARG002
        self._waiting -= tasks
        self._to_learn -= tasks
        self._something_to_run = any(map(self._may_run, self._waiting))
        self._stopped(tasks)

    def learn(self, tasks: Tasks) -> None:
        self._to_learn |= tasks
        self._changed()

    def stop_learning(self, tasks: Tasks) -> None:
        self._to_learn -= tasks

    def advance(self, epoch: Epoch) -> None: ...

    def refresh(self) -> None:
        over = frozenset(task for task in self._waiting if not self._stays(task))
        self._waiting -= over
        self._something_to_run = any(map(self._may_run, self._waiting))
        if over:
            self._stopped(over)

    def _stays(self, task: TaskId) -> bool:
        return self._needs_running(task) or (self._keeps_failed and self._has_failed(task))

    def drain(self) -> None: ...

    def let_failed_go(self) -> None:
        self._keeps_failed = False
        self.refresh()

    def leave_for_good(self) -> None: ...

    async def close(self) -> None:
        self._timer.cancel()


class NothingNeeded:
    """The means of who runs nothing (:class:`~airflow_provider.worker.standing_back.Means`)."""

    async def start(self) -> str:
        return ""

    async def release(self) -> None: ...

    async def end_what_lives_on(self, topics: GroupTopics) -> None: ...


class InTriggerer:
    """A place where nothing is run (:class:`~airflow_provider.worker.holding.Place`). It looks for no process that has
    ended: a triggerer has thousands of workers in one loop.

    :param pause_s: for how long from now no process is wanted that runs tasks
    """

    is_gone = None

    def __init__(self, pause_s: Callable[[], float]) -> None:
        self._pause_s = pause_s

    def make_hands(self, settings: WorkerSettings, topics: GroupTopics) -> MakeHands:
        def is_needed(task: TaskId) -> bool:
            return needs_running(task, topics.jobs, topics.status.tasks)

        def is_failed(task: TaskId) -> bool:
            return has_failed(task, topics.jobs, topics.status.tasks)

        def is_due(task: TaskId) -> bool:
            return may_run(task, topics.jobs, topics.status.tasks)

        last = topics.status.workers.get(settings.member.worker)
        deaths = deaths_after(last, this_process())
        allowed = None if last is None else last.allowed

        def make(stopped: Released, _finished: Released, changed: Callable[[], None], _lease: WorkerLease) -> Standby:
            return Standby(is_needed, is_failed, is_due, stopped, changed, self._pause_s(), deaths, allowed)

        return make

    def means(self, settings: WorkerSettings) -> NothingNeeded:  # noqa: ARG002
        return NothingNeeded()
