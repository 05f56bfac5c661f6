"""The events of a worker's executor, for tests and simulations in which nobody has given a runner its orders."""

from __future__ import annotations

from typing import Any

from airflow_provider.spark.runner import AttemptEvent, TaskOrder, WarmUpEvent
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.worker.tasks.events import Event


def order_for(task: TaskId) -> TaskOrder:
    return TaskOrder(task=task, entry_point="m:f", epoch=Epoch(1))


def event_of(kind: type[Event], **fields: Any) -> Event:
    """An event of this type. One of a runner is about the order of ``task``."""
    if issubclass(kind, AttemptEvent | WarmUpEvent):
        fields["order"] = order_for(fields.pop("task"))
    return kind(**fields)
