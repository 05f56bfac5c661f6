"""Tasks that have failed for good stay where they are: the worker that reports one has it after the round, too.

Such a task is not configured, so no assignor assigns it, and it does not count in any worker's share. It is added to
the result, so that its worker can try it again without another round.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeVar

from airflow_provider.assignment.learners.model import LearnerAssignment
from airflow_provider.assignment.model import GroupAssignment, Memory
from airflow_provider.assignment.shares import Shares, plus, without
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import NO_TASKS, Tasks

Decided = TypeVar("Decided", GroupAssignment, LearnerAssignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The failed tasks that workers report.

    :param shares: the tasks that each worker keeps
    :param disputed: tasks that two workers report. No worker keeps them, because both would try them again
    """

    shares: Shares
    disputed: Tasks = NO_TASKS


_NOTHING: Final = Kept(shares={})


def kept_of(owned: Shares, failed: Tasks) -> Kept:
    """Which worker keeps which failed tasks. A bridge keeps none, because it has released them before it learns that
    they are tried again.

    :param owned: the tasks that each worker reports
    :param failed: the tasks that have failed for good
    """
    shares = {worker: tasks & failed for worker, tasks in owned.items() if not tasks.isdisjoint(failed)}
    if not shares:
        return _NOTHING
    reports = Counter(chain.from_iterable(shares.values()))
    disputed = frozenset(task for task, times in reports.items() if times > 1)
    return Kept(
        shares={worker: without(tasks, disputed) for worker, tasks in shares.items() if worker != BRIDGE},
        disputed=disputed,
    )


def keeping(decided: Decided, kept: Shares) -> Decided:
    """Add the kept tasks to an assignment and to its memory."""
    if not kept:
        return decided
    if isinstance(decided, LearnerAssignment):
        cooperative = _remembering(decided.memory.cooperative, kept)
        return replace(
            decided, target=_merged(decided.target, kept), memory=replace(decided.memory, cooperative=cooperative)
        )
    return replace(decided, target=_merged(decided.target, kept), memory=_remembering(decided.memory, kept))


def _remembering(memory: Memory, kept: Shares) -> Memory:
    return replace(memory, assignment=_merged(memory.assignment, kept))


def _merged(shares: Shares, kept: Shares) -> Shares:
    return {worker: plus(tasks, kept.get(worker, NO_TASKS)) for worker, tasks in shares.items()}
