"""Which parts of a job run after which others, and so which of them are one task.

A group knows no order among tasks. So parts that are connected, directly or by way of others, run in one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from airflow_provider.spark.job.planning import PlanError


def tasks_in_order(job: str, parts: str, before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The parts of each task of a plan, in the order in which they run.

    :param parts: what they are, for people: ``files``
    :param before: for each part those after which it runs
    :raises PlanError: if a part is to run after one that is not there, or parts wait for each other
    """
    for name, earlier in before.items():
        for other in earlier:
            if other not in before:
                raise PlanError(
                    job,
                    f"can't be made: {name} is to run after {other!r}, which is none of the job's {parts}:"
                    f" {', '.join(before)}",
                )
    try:
        return connected_in_order(before)
    except CycleError as wrong:
        circle = " before ".join(wrong.args[1])
        raise PlanError(job, f"can't be made: its {parts} would have to run in a circle, {circle}") from wrong


def connected_in_order(before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The parts of each task, in the order in which they run. Parts that could run in any order are sorted by name, and
    so are the tasks.

    :param before: for each part those after which it runs, which must be among them
    :raises graphlib.CycleError: if parts wait for each other
    """
    order = list(_topological(before))
    neighbours: dict[str, list[str]] = {name: [*earlier] for name, earlier in before.items()}
    for name, earlier in before.items():
        for other in earlier:
            neighbours[other].append(name)
    tasks: dict[int, list[str]] = {}
    task_of: dict[str, int] = {}
    for name in order:
        if name not in task_of:
            task_of.update(dict.fromkeys(_reached(name, neighbours), len(tasks)))
        tasks.setdefault(task_of[name], []).append(name)
    return sorted(tasks.values())


def _reached(start: str, neighbours: Mapping[str, Sequence[str]]) -> set[str]:
    """From there, also by way of others."""
    reached, ahead = {start}, [start]
    while ahead:
        further = [each for each in neighbours[ahead.pop()] if each not in reached]
        reached.update(further)
        ahead += further
    return reached


def _topological(before: Mapping[str, Sequence[str]]) -> Iterator[str]:
    sorter = TopologicalSorter(before)
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield from ready
        sorter.done(*ready)
