"""Operations on tasks by worker. A round reads every share and changes few, so unchanged sets are not copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

Shares = Mapping[WorkerId, Tasks]
"""Tasks by worker."""


def plus(tasks: Tasks, more: Tasks) -> Tasks:
    """The tasks of both."""
    return tasks | more if tasks and more else tasks or more


def minus(tasks: Tasks, less: Tasks) -> Tasks:
    """The tasks that are not in ``less``."""
    return tasks - less if tasks and less else tasks


def without(tasks: Tasks, less: Tasks) -> Tasks:
    """As :func:`minus`, for sets that mostly have nothing in common: then the same set is returned."""
    return tasks if less.isdisjoint(tasks) else tasks - less


def merged(parts: Iterable[Mapping[WorkerId, Iterable[TaskId]]]) -> dict[WorkerId, Tasks]:
    """What each worker has in all parts together."""
    by_worker: defaultdict[WorkerId, list[Iterable[TaskId]]] = defaultdict(list)
    for part in parts:
        for worker, tasks in part.items():
            by_worker[worker].append(tasks)
    return {worker: NO_TASKS.union(*tasks) for worker, tasks in by_worker.items()}


def by_worker(pairs: Iterable[tuple[TaskId, WorkerId]]) -> dict[WorkerId, Tasks]:
    """Group tasks by worker."""
    tasks: defaultdict[WorkerId, list[TaskId]] = defaultdict(list)
    for task, worker in pairs:
        tasks[worker].append(task)
    return {worker: frozenset(tasks[worker]) for worker in sorted(tasks)}
