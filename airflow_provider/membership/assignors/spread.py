"""Dealing tasks to the workers that have the least, so that each job is spread.

Kafka Connect balances numbers only, so the tasks of one connector may all end up on one worker (KAFKA-17049). Here the
numbers come out the same, but among workers with equally many tasks the one with the fewest of the same job is next.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from operator import itemgetter

from airflow_provider.membership.model import TaskId, Tasks, WorkerId

_by_index = itemgetter(1)


def deal(
    tasks: Iterable[TaskId], loads: Mapping[WorkerId, int], held: Mapping[WorkerId, Tasks]
) -> dict[WorkerId, list[TaskId]]:
    """Give each task to a worker with the lowest load, as Java's ``assignTasks`` does.

    Near linear in the number of tasks: a job looks at no more workers than it has tasks.

    :param loads: how much each worker counts as having; may be negative, only differences matter
    :param held: the tasks that each worker has, of which those of the same jobs are counted
    :return: what each worker is given; only workers that are given something
    """
    jobs: defaultdict[str, list[TaskId]] = defaultdict(list)
    for task in tasks:
        jobs[task[0]].append(task)
    if not jobs:
        return {}
    queue = _Queue(loads)
    held_by_job = _count_jobs(jobs, queue.order, held)
    given: list[list[TaskId]] = [[] for _ in queue.order]
    for job in sorted(jobs):
        _deal_job(sorted(jobs[job], key=_by_index), queue, held_by_job[job], given)
    return {worker: hand for worker, hand in zip(queue.order, given, strict=True) if hand}


class _Queue:
    """The places of the workers that have the least; when all of them were served, those with one more join in.

    A worker's place is its position in ``order``, which is by load, then name.
    """

    __slots__ = ("_level", "_loads", "order", "waiting")

    def __init__(self, loads: Mapping[WorkerId, int]) -> None:
        self.order = sorted(loads, key=lambda worker: (loads[worker], worker))
        self._loads = [loads[worker] for worker in self.order]
        self._level = self._loads[0]
        self.waiting: deque[int] = deque()
        self._let_in()

    def serve_next_level(self) -> None:
        """Start over with everybody who was served and those who always had as much as these have now."""
        self._level += 1
        self._let_in()

    def _let_in(self) -> None:
        for place, load in enumerate(self._loads):
            if load > self._level:
                break
            self.waiting.append(place)


def _count_jobs(
    jobs: Mapping[str, object], order: list[WorkerId], held: Mapping[WorkerId, Tasks]
) -> dict[str, dict[int, int]]:
    counts: dict[str, dict[int, int]] = {job: {} for job in jobs}
    for place, worker in enumerate(order):
        for job, _ in held.get(worker, ()):
            if job in counts:
                of_job = counts[job]
                of_job[place] = of_job.get(place, 0) + 1
    return counts


def _deal_job(tasks: list[TaskId], queue: _Queue, count: dict[int, int], given: list[list[TaskId]]) -> None:
    """Deal one job's tasks, preferring the places that ``count`` says have the fewest of them."""
    passed_over: list[tuple[int, int]] = []
    waiting = queue.waiting
    for task in tasks:
        if not waiting and not passed_over:
            queue.serve_next_level()
        while waiting and waiting[0] in count:
            place = waiting.popleft()
            heappush(passed_over, (count[place], place))
        place = waiting.popleft() if waiting else heappop(passed_over)[1]
        count[place] = count.get(place, 0) + 1
        given[place].append(task)
    waiting.extendleft(sorted((place for _, place in passed_over), reverse=True))
