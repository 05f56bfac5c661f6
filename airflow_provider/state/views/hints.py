"""Records of a status topic from which others can tell that their group has probably begun to rebalance, or soon will.

Each says something else in the first place: that a worker starts, is ready for a task that it learns, has stopped one
that was revoked, or has left. Workers write them anyway, at about the time of the request that makes the coordinator
rebalance.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import NO_TASKS, Tasks

_BEGINS_A_ROUND: Final = (WorkerPhase.JOINING, WorkerPhase.LEFT)


def worker_hints(known: WorkerStatus | None, new: WorkerStatus) -> bool:
    """Whether a worker says for the first time that it joins, has left, or is ready for a task that it learns."""
    if new.learning and _ready(new) - _ready(known):
        return True
    if new.state not in _BEGINS_A_ROUND:
        return False
    return known is None or (known.state, known.process) != (new.state, new.process)


def _ready(said: WorkerStatus | None) -> Tasks:
    return NO_TASKS if said is None else frozenset(lesson.task for lesson in said.learning if lesson.ready)


def task_hints(known: TaskStatus | None, new: TaskStatus, round_: GroupRecord | None) -> bool:
    """Whether a task has stopped that the last round has revoked: then its worker joins again. Tasks also stop for what
    concerns no other worker.
    """
    if new.state is not TaskState.STOPPED or (known is not None and known.state is TaskState.STOPPED):
        return False
    return round_ is not None and new.task in round_.revoked_from(new.worker)
