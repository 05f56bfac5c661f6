"""Who has what. A round touches every share and changes few: what stays the same is not copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId

Shares = Mapping[WorkerId, Tasks]
"""Tasks by worker."""


def plus(tasks: Tasks, more: Tasks) -> Tasks:
    """The tasks of both."""
    return tasks | more if tasks and more else tasks or more


def minus(tasks: Tasks, less: Tasks) -> Tasks:
    """The tasks that are not in ``less``."""
    return tasks - less if tasks and less else tasks


def without(tasks: Tasks, less: Tasks) -> Tasks:
    """The same, where often none of them is: then it is the very set."""
    return tasks if less.isdisjoint(tasks) else tasks - less


def merged(parts: Iterable[Mapping[WorkerId, Iterable[TaskId]]]) -> dict[WorkerId, Tasks]:
    """What each worker has in all of the parts together."""
    by_worker: defaultdict[WorkerId, list[Iterable[TaskId]]] = defaultdict(list)
    for part in parts:
        for worker, tasks in part.items():
            by_worker[worker].append(tasks)
    return {worker: NO_TASKS.union(*tasks) for worker, tasks in by_worker.items()}
