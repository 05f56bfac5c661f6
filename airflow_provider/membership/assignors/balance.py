"""What to revoke so that no worker has more than its share.

Planners and tasks are balanced apart: a planner costs next to nothing, so one must not be weighed against the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

from airflow_provider.membership.model import TaskId, WorkerId


def surplus(loads: Mapping[WorkerId, int], total: int) -> dict[WorkerId, int]:
    """How many tasks each worker has above its share, as Java's ``loadBalancingRevocations`` counts them.

    The share is ``total // workers``; ``total % workers`` of those above it may keep one more. Those with the least
    above it keep it first, so that as few workers as possible have to stop anything.

    :return: only workers that have to give something up
    """
    share, extras = divmod(total, len(loads))
    above = sorted((load, worker) for worker, load in loads.items() if load > share)
    keeps = {worker: share + (position < extras) for position, (_, worker) in enumerate(above)}
    return {worker: load - keeps[worker] for load, worker in above if load > keeps[worker]}


def choose(tasks: Collection[TaskId], number: int, rank: Mapping[TaskId, int]) -> list[TaskId]:
    """The tasks that a worker gives up: the lowest rank first, then of the job that has the most tasks on that worker.

    :param rank: what it costs to stop a task: 0, the default, means nothing, as for one that has not started
    """
    left = _group(tasks)
    size = {job: len(members) for job, members in left.items()}
    by_rank: defaultdict[int, list[TaskId]] = defaultdict(list)
    for task in tasks:
        by_rank[rank.get(task, 0)].append(task)
    chosen: list[TaskId] = []
    for _, equals in sorted(by_rank.items()):
        _thin_out(equals, number, size, chosen)
        if len(chosen) == number:
            break
    return chosen


def _thin_out(tasks: Iterable[TaskId], number: int, size: dict[str, int], chosen: list[TaskId]) -> None:
    """Move tasks to ``chosen`` until it has ``number``, each from the job that has the most left by ``size``."""
    stacks = {job: sorted(members) for job, members in _group(tasks).items()}
    largest = [(-size[job], job) for job in stacks]
    heapify(largest)
    while largest and len(chosen) < number:
        _, job = heappop(largest)
        chosen.append(stacks[job].pop())
        size[job] -= 1
        if stacks[job]:
            heappush(largest, (-size[job], job))


def _group(tasks: Iterable[TaskId]) -> dict[str, list[TaskId]]:
    groups: defaultdict[str, list[TaskId]] = defaultdict(list)
    for task in tasks:
        groups[task[0]].append(task)
    return groups
