"""Deals out tasks to the workers that have the least, so that each job is spread.

Kafka Connect balances numbers only, so the tasks of one connector may all end up on one worker (KAFKA-17049). Here the
numbers are the same, but among workers with equally many tasks the one with the fewest of the same job is next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from operator import itemgetter

from airflow_provider.assignment.shares import NO_NUMBERS, Numbers, Shares
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId

_by_index = itemgetter(1)


def deal(
    tasks: Iterable[TaskId],
    loads: Numbers,
    held: Shares,
    beside: Numbers = NO_NUMBERS,
) -> dict[WorkerId, list[TaskId]]:
    """Give each task to a worker with the lowest load, as Java's ``assignTasks`` does.

    It takes nearly linear time in the number of tasks: for a job, it looks at no more workers than the job has tasks.

    :param loads: the load with which each worker begins; may be negative, as only differences matter
    :param held: the tasks that each worker has, to count those of the same jobs
    :param beside: how many other tasks each worker has; of equally loaded workers, those with the fewest come first
    :return: what each worker is given; only workers that are given something
    """
    jobs = by_job(tasks)
    if not jobs:
        return {}
    order = sorted(loads, key=lambda worker: (beside.get(worker, 0), loads[worker], worker))
    held_by_job = _count_jobs(jobs, order, held)
    if len(set(loads.values())) == 1 and not any(held_by_job.values()):
        in_turn = list(chain.from_iterable(jobs.values()))
        hands = [in_turn[place :: len(order)] for place in range(len(order))]
    else:
        queue = _Queue([loads[worker] for worker in order], [beside.get(worker, 0) for worker in order])
        hands = [[] for _ in order]
        for job, of_job in jobs.items():
            for place, task in zip(queue.serve(len(of_job), held_by_job[job]), of_job, strict=True):
                hands[place].append(task)
    return {worker: hand for worker, hand in zip(order, hands, strict=True) if hand}


def deal_seats(tasks: Iterable[TaskId], seats: Numbers, held: Shares) -> dict[WorkerId, list[TaskId]]:
    """Give each worker so many of the tasks, and to each a part of each job that is in proportion to its seats.

    :param seats: for as many tasks as there are
    :param held: the tasks that each worker has, to count those of the same jobs
    :return: what each worker is given; only workers that are given something
    """
    jobs = by_job(tasks)
    order = sorted(worker for worker, number in seats.items() if number)
    of_place = [seats[worker] for worker in order]
    row = _row(of_place)
    start = 0
    for job, count in _count_jobs(jobs, order, held).items():
        if count:
            _let_few_first(row, start, len(jobs[job]), count, of_place)
        start += len(jobs[job])
    hands: list[list[TaskId]] = [[] for _ in order]
    for place, task in zip(row, chain.from_iterable(jobs.values()), strict=True):
        hands[place].append(task)
    return dict(zip(order, hands, strict=True))


def by_job(tasks: Iterable[TaskId]) -> dict[str, list[TaskId]]:
    """Each job's tasks: jobs by name, tasks by index."""
    jobs: defaultdict[str, list[TaskId]] = defaultdict(list)
    for task in tasks:
        jobs[task[0]].append(task)
    return {job: sorted(jobs[job], key=_by_index) for job in sorted(jobs)}


def _row(seats: list[int]) -> list[int]:
    """The place of each seat, if all seats are in a row in which those of each place are evenly spread.

    :param seats: how many each place has
    """
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for place, of_place in enumerate(seats):
        alike[of_place].append(place)
    turns: dict[float, list[int]] = {}  # as many places have equally many seats, there are few
    for of_each, places in alike.items():
        for number in range(of_each):
            turn = (number + 0.5) / of_each
            turns[turn] = sorted(turns[turn] + places) if turn in turns else places
    return list(chain.from_iterable(map(turns.__getitem__, sorted(turns))))


def _let_few_first(row: list[int], start: int, number: int, count: Mapping[int, int], seats: list[int]) -> None:
    """Let those places have the next seats of a row, for tasks of one job, that have few of its tasks for their seats.

    :param number: how many tasks
    :param count: how many tasks of the job each place has, without places that have none
    """
    near = row[start : start + 2 * number + len(count)]
    has = dict(count)
    shares: list[float] = []
    for place in near:
        shares.append(has.get(place, 0) / seats[place])
        has[place] = has.get(place, 0) + 1
    order = sorted(range(len(near)), key=shares.__getitem__)
    first, later = order[:number], sorted(order[number:])
    row[start : start + len(near)] = [near[turn] for turn in (*first, *later)]


def _count_jobs(jobs: Mapping[str, object], order: list[WorkerId], held: Shares) -> dict[str, dict[int, int]]:
    """For each job, the places that have tasks of it, and how many."""
    counts: dict[str, dict[int, int]] = {job: {} for job in jobs}
    for place, worker in enumerate(order):
        for job, _ in held.get(worker, NO_TASKS):
            if job in counts:
                of_job = counts[job]
                of_job[place] = of_job.get(place, 0) + 1
    return counts


class _Queue:
    """The places of the workers that have the least. When all were served, those with one task more are added.

    A worker's place is its position in the order by its other tasks, then by load, then by name.

    :param loads: by place
    :param beside: by place, so the fewest come first
    """

    __slots__ = ("_beside", "_by_load", "_level", "_loads", "_waiting")

    def __init__(self, loads: list[int], beside: list[int]) -> None:
        self._by_load = sorted(range(len(loads)), key=loads.__getitem__)
        self._loads = sorted(loads)
        self._beside = beside
        self._level = self._loads[0]
        self._waiting = self._on_level()

    def _on_level(self) -> list[int]:
        """All places at or below the level: those served up to it, and those that had so much from the start."""
        return sorted(self._by_load[: bisect_right(self._loads, self._level)])

    def serve(self, number: int, count: dict[int, int]) -> list[int]:
        """Choose the places that get the next tasks of one job, in turn.

        :param number: how many tasks
        :param count: how many tasks of the job each place has, without places that have none; consumed
        """
        served: list[int] = []
        while True:
            turn = self._serve_on_level(number - len(served), count)
            served += turn
            if len(served) == number:
                return served
            for place in turn:
                count[place] = count.get(place, 0) + 1
            self._level += 1
            self._waiting = self._on_level()

    def _serve_on_level(self, number: int, count: dict[int, int]) -> list[int]:
        """Choose at most ``number`` waiting places: those with the fewest other tasks, then those with the fewest tasks
        of the job, then the first.
        """
        first = self._waiting[: number + len(count)]  # if there are so many, at least `number` have none of the job
        if count:
            first.sort(key=lambda place: count.get(place, 0))
            first.sort(key=self._beside.__getitem__)
        self._waiting[: len(first)] = sorted(first[number:])
        return first[:number]
