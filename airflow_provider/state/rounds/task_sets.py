"""Many sets of tasks as JSON, with the name of each job once.

The record of a large round is little else than tasks. As ``[job, index]`` pairs, the name of a job is repeated for each
of its tasks, because spread jobs have one task on each worker; and twice in a round that gives workers all they have,
because its moves have the same tasks. Here a set is written as its number, equal sets as the same one, and a table in
the field :data:`TABLE` says what is in them.

The table has the number of sets, and numbers for each job, in ascending order: for its task ``index`` in the set
``number``, ``(index + 1) * sets + number``. Of these the first is written, and then the steps from each to the next.
Where tasks are dealt out to one worker after the other, all steps are equal, which compresses well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate, repeat
from operator import sub
from reprlib import repr as short
from typing import Any, Final

from airflow_provider.values.model import (
    HIGHEST_INDEX,
    NO_TASKS,
    PLANNER_INDEX,
    ReadTasks,
    TaskId,
    Tasks,
    name_from_json,
    tasks_from_json,
    whole_from_json,
)
from airflow_provider.values.packed_tasks import task_of
from airflow_provider.values.recent import Recent

TABLE: Final = "tasks"
"""The field of a document with the table of its sets. A document without it has pairs."""

_MOST_TIMES: Final = 20
_ALWAYS: Final = 2_000_000
"""How many tasks may be read in all: this many times those in the table, because fields of a round share sets, and
what the largest record could have as pairs. Otherwise a small record could name one set for each of thousands of
workers, and be more tasks than anybody can go through.
"""
_MOST_UNUSED: Final = 4
"""How many tasks at most are kept of a job for each one that is in a table."""
KNOWN: Final = Recent[tuple[str, int], tuple[TaskId, ...]]()
"""A cache: the planner and the first tasks of a job. Each round has mostly the tasks of the one before, and many new
objects would start the garbage collector, which blocks all threads.
"""


class TaskSets:
    """Numbers the sets of tasks of one document, for their table."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[Tasks, int] = {}

    def number(self, tasks: Tasks) -> int:
        """The number of a set."""
        return self._numbers.setdefault(tasks, len(self._numbers))

    def to_json(self) -> dict[str, Any]:
        """The table of all sets that have numbers by now."""
        sets = max(len(self._numbers), 1)
        places: defaultdict[str, list[int]] = defaultdict(list)
        for tasks, number in self._numbers.items():
            planner = number - PLANNER_INDEX * sets
            for job, index in tasks:
                places[job].append(index * sets + planner)
        return {"sets": sets, "jobs": {job: _steps(sorted(each)) for job, each in places.items()}}


def reader_of(document: Mapping[str, Any]) -> ReadTasks:
    """What reads the sets of tasks in a document: by their numbers if it has a table, or as pairs.

    :raises ValueError: if the table makes no sense, naming what is wrong. The reader does so, too, also if sets are
        named so often that this is no round
    """
    table = document.get(TABLE)
    if table is None:
        return tasks_from_json
    if not isinstance(table, dict) or not isinstance(jobs := table.get("jobs"), dict):
        raise ValueError(f"a table of tasks has 'sets' and 'jobs', unlike {short(table)}")
    sets = whole_from_json(table.get("sets"), "a number of sets", least=1, most=HIGHEST_INDEX)
    known = _sets_of(jobs, sets)
    left = _ALWAYS + _MOST_TIMES * sum(map(len, known.values()))

    def read(data: Any) -> Tasks:
        nonlocal left
        if type(data) is not int:
            return tasks_from_json(data)  # an event of a round gets a memory without tasks when it is read
        tasks = known.get(whole_from_json(data, "the number of a set", most=sets - 1), NO_TASKS)
        left -= len(tasks)
        if left < 0:
            raise ValueError("its sets of tasks are named more often than in any round")
        return tasks

    return read


def _steps(places: list[int]) -> list[int]:
    return [places[0], *map(sub, places[1:], places)]


def _sets_of(jobs: Mapping[str, Any], sets: int) -> dict[int, Tasks]:
    """The tasks in each set that has any. Does not depend on how many sets there are said to be."""
    found: defaultdict[int, list[TaskId]] = defaultdict(list)
    for job, steps in jobs.items():
        places = _places(name_from_json(job), steps, sets)
        tasks = _tasks_of(job, [place // sets for place in places])
        for task, place in zip(tasks, places, strict=True):
            found[place % sets].append(task)
    return {number: frozenset(tasks) for number, tasks in found.items()}


def _tasks_of(job: str, after_planner: list[int]) -> Iterable[TaskId]:
    """Tasks of a job. Makes no new objects if the job was in a table recently, with about as many tasks.

    :param after_planner: how far each is from the planner, which is the first task of a job; in ascending order
    """
    upto = 1 << after_planner[-1].bit_length()
    if upto > _MOST_UNUSED * len(after_planner):
        return map(task_of, zip(repeat(job), [PLANNER_INDEX + each for each in after_planner], strict=False))
    known = KNOWN.get((job, upto))
    if known is None:
        known = tuple(map(task_of, zip(repeat(job), range(PLANNER_INDEX, PLANNER_INDEX + upto), strict=False)))
        KNOWN.put((job, upto), known, known, 0)
    return map(known.__getitem__, after_planner)


def _places(job: str, steps: Any, sets: int) -> list[int]:
    if not isinstance(steps, list) or set(map(type, steps)) != {int}:
        raise ValueError(f"the tasks of job {short(job)} must be whole numbers, not {short(steps)}")
    if steps[0] < 0 or min(steps[1:], default=1) < 1:
        raise ValueError(f"the tasks of job {short(job)} must ascend, unlike {short(steps)}")
    places = list(accumulate(steps))
    if places[-1] >= (HIGHEST_INDEX - PLANNER_INDEX + 1) * sets:
        raise ValueError(f"the wire can't carry a task of job {short(job)}")
    return places
