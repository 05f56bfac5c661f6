"""How many suspects of a worker are to be tried before another one (``worker/tasks/runs/spark_deaths``). Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import TaskId, WorkerId

_Order = Mapping[WorkerId, Sequence[tuple[int, TaskId]]]
_ORDER: Final = Memo[StatusSnapshot, _Order]()


def awaited_trial(last: TaskStatus, status: StatusSnapshot, *, place: bool) -> str:
    """What a suspect waits for, in words; empty: it waits for no trial.

    :param place: say how many come before it
    """
    if not _waits(last):
        return ""
    order = _ORDER.get(status, lambda: _order(status)).get(last.worker, ())
    before = bisect_left(order, (last.deaths, last.task)) if place else 0
    return f"waits for its trial: {before} task{'s' * (before > 1)} before it" if before else "waits for its trial"


def _order(status: StatusSnapshot) -> _Order:
    """Those that were counted less come first."""
    waiting: defaultdict[WorkerId, list[tuple[int, TaskId]]] = defaultdict(list)
    for said in filter(_waits, status.tasks.values()):
        waiting[said.worker].append((said.deaths, said.task))
    return {worker: sorted(tasks) for worker, tasks in waiting.items()}


def _waits(said: TaskStatus) -> bool:
    return said.waits_for_trial and said.state is TaskState.PENDING
