"""What has failed for good and keeps its place: its worker reports it, and has it after the round as before.

It is not configured, so no assignor deals it out, and it counts in nobody's share. Were it left out of what the round
gives, nobody would know that its worker can try it again without another one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeVar

from airflow_provider.assignors.model import GroupAssignment, Memory
from airflow_provider.assignors.shares import Shares, plus, without
from airflow_provider.learners.model import LearnerAssignment
from airflow_provider.protocol.bridge import BRIDGE
from airflow_provider.protocol.model import NO_TASKS, Tasks

Decided = TypeVar("Decided", GroupAssignment, LearnerAssignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What has failed for good and is reported.

    :param shares: by worker, what it keeps
    :param disputed: what two of them report: nobody keeps that, for both would try it again
    """

    shares: Shares
    disputed: Tasks = NO_TASKS


_NOTHING: Final = Kept(shares={})


def kept_of(owned: Shares, failed: Tasks) -> Kept:
    """Who keeps what. A bridge keeps nothing: it has let go of what has ended before it hears of another try.

    :param owned: what each reports
    :param failed: what has failed for good
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
    """What was decided, with what is kept."""
    if not kept:
        return decided
    if isinstance(decided, LearnerAssignment):
        cooperative = _remembering(decided.memory.cooperative, kept)
        return replace(
            decided, target=_with(decided.target, kept), memory=replace(decided.memory, cooperative=cooperative)
        )
    return replace(decided, target=_with(decided.target, kept), memory=_remembering(decided.memory, kept))


def _remembering(memory: Memory, kept: Shares) -> Memory:
    return replace(memory, assignment=_with(memory.assignment, kept))


def _with(shares: Shares, kept: Shares) -> Shares:
    return {worker: plus(tasks, kept.get(worker, NO_TASKS)) for worker, tasks in shares.items()}
