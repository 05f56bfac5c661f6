"""Tasks and assignors as messages have them, and as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.declarative.model import ClientAssignor
from airflow_provider.declarative.wire.parts import Assignor, ConnectorsAndTasks
from airflow_provider.protocol.model import NO_TASKS, PLANNER_INDEX, TaskId, Tasks

_NOTHING: Final[tuple[ConnectorsAndTasks, ...]] = ()


def units_of(tasks: Tasks) -> tuple[ConnectorsAndTasks, ...]:
    """As messages have them: sorted, so that equal tasks give equal bytes."""
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
    """As values: each once, however often and in however many parts a message names it."""
    tasks: set[TaskId] = set()
    for unit in units:
        tasks.update(unit.tasks)
        tasks.update(TaskId(job, PLANNER_INDEX) for job in unit.connectors)
    return frozenset(tasks) if tasks else NO_TASKS


def client_assignors_of(assignors: Iterable[Assignor]) -> tuple[ClientAssignor, ...]:
    return tuple(
        ClientAssignor(
            name=one.name,
            minimum_version=one.minimum_version,
            maximum_version=one.maximum_version,
            version=one.version,
            reason=one.reason,
            metadata=one.metadata,
        )
        for one in assignors
    )


def assignors_of(assignors: Iterable[ClientAssignor]) -> tuple[Assignor, ...]:
    """As messages have them."""
    return tuple(
        Assignor(
            name=one.name,
            minimum_version=one.minimum_version,
            maximum_version=one.maximum_version,
            reason=one.reason,
            version=one.version,
            metadata=one.metadata,
        )
        for one in assignors
    )
