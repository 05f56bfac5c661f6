"""Warm-ups of tasks that have nothing to warm up: a server is equally warm for all its workers."""

from __future__ import annotations

import asyncio

from airflow_provider.spark.runner import OnEvent, TaskOrder, WarmUpReady
from airflow_provider.values.model import TaskId


class ReadyAtOnce:
    """Reports a task as ready in the next turn of the loop, unless its warm-up is stopped before that."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._ready: dict[TaskId, asyncio.Handle] = {}

    def warm(self, order: TaskOrder) -> None:
        self.stop(order.task)
        ready = WarmUpReady(order=order)
        self._ready[order.task] = asyncio.get_running_loop().call_soon(self._on_event, ready)

    def stop(self, task: TaskId) -> None:
        ready = self._ready.pop(task, None)
        if ready is not None:
            ready.cancel()

    def stop_all(self) -> None:
        for task in list(self._ready):
            self.stop(task)
