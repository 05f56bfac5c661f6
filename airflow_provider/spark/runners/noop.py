"""A runner that runs nothing, for trying out groups and for measuring them without Spark.

A planner plans ``max_tasks`` tasks with the job's configuration, or the configurations under ``tasks``. A task runs
until it is stopped; with ``seconds`` in its configuration it finishes after that time; with ``fail`` it fails with that
message (after ``seconds``, if given). With ``needs`` it fails on a worker that does not find this module. When it
finishes, it reports the assets in ``writes`` as written: rows by the name of an asset. With ``warm_up_seconds`` its
warm-up takes that long; with ``warm_up_fails`` its warm-up fails with that message.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, Final

from airflow_provider.spark.job.asset_writes import AssetWrites
from airflow_provider.spark.job.planning import PlanError, check_plan_size
from airflow_provider.spark.runner import (
    OnEvent,
    RunnerClosedError,
    StillRunningError,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
    WarmUpFailed,
    WarmUpProgressed,
    WarmUpReady,
)
from airflow_provider.values.model import TaskId, Tasks

WARM_UP: Final = "warm_up_seconds"
_TASKS: Final = "tasks"
_WARM_UP_FAILS: Final = "warm_up_fails"


class NoopRunner:
    """Runs nothing (a :class:`~airflow_provider.spark.runner.Runner`); entry points are not even imported.

    :param on_event: called with the events of the tasks
    """

    condition = spark_ui = ""
    opening = False

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._orders: dict[TaskId, TaskOrder] = {}
        self._timers: dict[TaskId, asyncio.TimerHandle] = {}
        self._learners: dict[TaskId, list[asyncio.TimerHandle]] = {}
        self._closed = False

    @property
    def running(self) -> Tasks:
        return frozenset(self._orders)

    async def start(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"task {order.task} can't be started: the runner is closed")
        if order.task in self._orders:
            raise StillRunningError(f"task {order.task} is still running here; stop it first")
        self.stop_warming(order.task)
        self._orders[order.task] = order
        asyncio.get_running_loop().call_soon(self._on_event, TaskStarted(order=order))

    def warm(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"task {order.task} can't be warmed up: the runner is closed")
        self.stop_warming(order.task)
        call_later, seconds = asyncio.get_running_loop().call_later, _warm_up_of(order)
        half = WarmUpProgressed(order=order, progress=0.5)
        error = order.config.get(_WARM_UP_FAILS)
        end = WarmUpReady(order=order) if error is None else WarmUpFailed(order=order, error=str(error), traceback="")
        self._learners[order.task] = [
            call_later(seconds / 2, self._on_event, half),
            call_later(seconds, self._on_event, end),
        ]

    def stop_warming(self, task: TaskId) -> None:
        for timer in self._learners.pop(task, ()):
            timer.cancel()

    def proceed(self, task: TaskId) -> None:
        order = self._orders.get(task)
        ending = _ending_of(order) if order is not None else None
        if order is not None and ending is not None:
            seconds, error = ending
            self._timers[task] = asyncio.get_running_loop().call_later(seconds, self._end, order, error)

    async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:  # noqa: ARG002
        await asyncio.sleep(0)  # so that TaskStarted comes before TaskStopped
        for task in sorted(frozenset(tasks) & self.running):
            order = self._forget(task)
            self._on_event(TaskStopped(order=order, reason=reason))
        return frozenset()

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:
        self._closed = True
        for task in list(self._learners):
            self.stop_warming(task)
        return await self.stop(self.running, "the worker is closing", timeout_s=timeout_s)

    def _end(self, order: TaskOrder, error: str | None) -> None:
        self._forget(order.task)
        if error is not None:
            self._on_event(TaskFailed(order=order, error=error, traceback="", retryable=True))
            return
        try:
            finished = _planned(order) if order.task.is_planner else _finished(order)
        except (PlanError, ValueError) as wrong:
            self._on_event(TaskFailed(order=order, error=str(wrong), traceback="", retryable=False))
        else:
            self._on_event(finished)

    def _forget(self, task: TaskId) -> TaskOrder:
        timer = self._timers.pop(task, None)
        if timer is not None:
            timer.cancel()
        return self._orders.pop(task)


def _ending_of(order: TaskOrder) -> tuple[float, str | None] | None:
    """After how many seconds the task ends by itself, and with what error; None: it does not."""
    if order.task.is_planner:
        return 0.0, None
    missing = _missing_of(order)
    if missing is not None:
        return 0.0, missing
    seconds, fail = order.config.get("seconds"), order.config.get("fail")
    error = None if fail is None else str(fail)
    if seconds is None:
        return None if error is None else (0.0, error)
    try:
        return float(seconds), error
    except (TypeError, ValueError, OverflowError):
        return 0.0, f"seconds must be a number, not {seconds!r}"


def _missing_of(order: TaskOrder) -> str | None:
    """The error for a module that this worker does not have; None: it has all that is needed. Nothing is imported."""
    needs = order.config.get("needs")
    if not isinstance(needs, str) or not needs.isidentifier() or find_spec(needs) is not None:
        return None
    return f"No module named {needs!r}"


def _warm_up_of(order: TaskOrder) -> float:
    """How many seconds the warm-up takes."""
    try:
        return max(0.0, float(order.config.get(WARM_UP, 0)))
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _finished(order: TaskOrder) -> TaskFinished:
    """:raises ValueError: if ``writes`` is invalid"""
    said = order.config.get("writes", {})
    if not isinstance(said, dict):
        raise ValueError(f"writes must be an object, rows by the name of an asset, and not {said!r}")
    writes = AssetWrites()
    for name, rows in said.items():
        writes.add(name, name, rows)
    return TaskFinished(order=order, result={"seconds": order.config["seconds"]}, wrote=writes.told)


def _planned(order: TaskOrder) -> TaskFinished:
    """:raises PlanError: if no record has room for so many tasks"""
    has_something = not order.config.keys().isdisjoint((WARM_UP, _WARM_UP_FAILS))
    return TaskFinished(order=order, result=_plan_of(order), stateful=has_something)


def _plan_of(order: TaskOrder) -> list[dict[str, Any]]:
    """:raises PlanError: if no record has room for so many tasks; checked before they are made"""
    given = order.config.get(_TASKS)
    if isinstance(given, list):
        return given
    size = order.max_tasks * len(json.dumps(dict(order.config)))
    check_plan_size(order.task.job, size)
    return [dict(order.config) for _ in range(order.max_tasks)]
