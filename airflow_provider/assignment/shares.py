"""Operations on tasks by worker. A round reads every share and changes few, so unchanged sets are not copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

K = TypeVar("K", WorkerId, int)

Shares = Mapping[WorkerId, Tasks]
"""Tasks by worker."""
NO_SHARES: Final[Shares] = MappingProxyType({})

Numbers = Mapping[WorkerId, int]
"""A number by worker, as of tasks or of slots."""
NO_NUMBERS: Final[Numbers] = MappingProxyType({})


def plus(tasks: Tasks, more: Tasks) -> Tasks:
    """The tasks of both."""
    return tasks | more if tasks and more else tasks or more


def minus(tasks: Tasks, less: Tasks) -> Tasks:
    """The tasks that are not in ``less``."""
    return tasks - less if tasks and less else tasks


def both(tasks: Tasks, others: Tasks) -> Tasks:
    """What is in both sets. If all of ``others`` is in ``tasks``, the same set is returned."""
    return others if others <= tasks else tasks & others


def without(tasks: Tasks, less: Tasks) -> Tasks:
    """As :func:`minus`, for sets that mostly have nothing in common: then the same set is returned."""
    return tasks if less.isdisjoint(tasks) else tasks - less


def all_of(shares: Shares) -> Tasks:
    """The tasks of all workers together."""
    return NO_TASKS.union(*shares.values())


def merged(parts: Iterable[Mapping[WorkerId, Iterable[TaskId]]]) -> dict[WorkerId, Tasks]:
    """What each worker has in all parts together."""
    by_worker: defaultdict[WorkerId, list[Iterable[TaskId]]] = defaultdict(list)
    for part in parts:
        for worker, tasks in part.items():
            by_worker[worker].append(tasks)
    return {worker: NO_TASKS.union(*tasks) for worker, tasks in by_worker.items()}


def grouped(pairs: Iterable[tuple[TaskId, K]]) -> dict[K, Tasks]:
    """Group tasks by what each comes with, such as a worker or a size, in its order."""
    tasks: defaultdict[K, list[TaskId]] = defaultdict(list)
    for task, key in pairs:
        tasks[key].append(task)
    return {key: frozenset(tasks[key]) for key in sorted(tasks)}
