"""Hands for a worker in a triggerer: they run nothing, and notice when there is something to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.views.task_progress.progress import has_failed, may_run, needs_running
from airflow_provider.values.model import Epoch, TaskId, Tasks
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.tasks.runs.warm_up_deaths import deaths_after
from airflow_provider.worker.worker import MakeHands


class Standby:
    """They are done when there is something to run or to learn now.

    :param needs_running: whether an assigned task still has to run
    :param has_failed: whether it has failed for good, and stays here until somebody has it tried again
    :param may_run: whether it may run now: tasks of a paused job wait here
    :param stopped: called with tasks that were told to stop or need not run (none ever ran)
    :param changed: called when they may be done
    :param pause_s: don't ask for a process that runs tasks before this time is over
    :param warm_up_deaths: those of the worker's last process, for its next one
    :param allowed: the import prefixes that the last process has reported
    :param time_zone: the time zone of sessions that it has reported
    :param python_time_zone: its own time zone, as it has reported it
    """

    running: Tasks = frozenset()
    attached: Tasks = frozenset()
    learning: Mapping[TaskId, float] = MappingProxyType({})
    failed_warm_ups: Mapping[TaskId, str] = MappingProxyType({})
    stopped_running = awaits_own_record_since_ms = 0
    fault: BaseException | None = None
    condition = unable = blamed = spark_ui = ""

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
        time_zone: str = "",
        python_time_zone: str = "",
    ) -> None:
        self.allowed = allowed
        self.time_zone = time_zone
        self.python_time_zone = python_time_zone
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


class NoSparkNeeded:
    """Needs no Spark (:class:`~airflow_provider.worker.standing_back.SparkStarter`)."""

    async def start(self) -> None:
        return None

    async def release(self) -> None: ...

    async def end_detached_queries(self, topics: GroupTopics) -> None: ...


class InTriggerer:
    """A triggerer that runs nothing (:class:`~airflow_provider.worker.holding.Place`). It does not check whether
    processes have ended, because it holds thousands of workers in one loop.

    :param pause_s: gives the time, from now, before which no process that runs tasks is to be started
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
        allowed, *zones = (None, "", "") if last is None else (last.allowed, last.time_zone, last.python_time_zone)

        def make(stopped: Released, _finished: Released, changed: Callable[[], None], _lease: WorkerLease) -> Standby:
            return Standby(is_needed, is_failed, is_due, stopped, changed, self._pause_s(), deaths, allowed, *zones)

        return make

    def spark_starter(self, settings: WorkerSettings) -> NoSparkNeeded:  # noqa: ARG002
        return NoSparkNeeded()
