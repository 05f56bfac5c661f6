"""Converts tasks between messages and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.group.declarative.protocol.wire.parts import ConnectorsAndTasks
from airflow_provider.values.model import NO_TASKS, PLANNER_INDEX, TaskId, Tasks

_NOTHING: Final[tuple[ConnectorsAndTasks, ...]] = ()


def units_of(tasks: Tasks) -> tuple[ConnectorsAndTasks, ...]:
    """Tasks as in messages: sorted, so that equal sets give equal bytes."""
    if not tasks:
        return _NOTHING
    ordered = sorted(tasks)
    return (
        ConnectorsAndTasks(
            connectors=tuple(job for job, index in ordered if index == PLANNER_INDEX),
            tasks=tuple(task for task in ordered if task.index != PLANNER_INDEX),
        ),
    )


def tasks_of(units: Iterable[ConnectorsAndTasks]) -> Tasks:
    """Tasks as a set, even if a message names them several times or in several parts."""
    tasks: set[TaskId] = set()
    for unit in units:
        tasks.update(unit.tasks)
        tasks.update(TaskId(job, PLANNER_INDEX) for job in unit.connectors)
    return frozenset(tasks) if tasks else NO_TASKS
