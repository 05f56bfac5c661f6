"""Which SQL files run after which, as their comments say, and so which of them are one task.

A group knows no order among tasks. So files that are connected, directly or by way of others, run in one task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Final

from airflow_provider.jobs.sql_statements import leading_comments

_AFTER: Final = re.compile(r"--\s*after:(.*)", re.IGNORECASE)


def named_before(text: str) -> list[str]:
    """The files after which this one is to run: ``-- after: a.sql, b.sql`` before the file's first statement."""
    said = filter(None, map(_AFTER.fullmatch, leading_comments(text)))
    return [name.strip() for found in said for name in found[1].split(",") if name.strip()]


def connected_in_order(before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The files of each task, in the order in which they run. Files that could run in any order are sorted by name, and
    so are the tasks.

    :param before: for each file the files after which it runs, which must be among them
    :raises graphlib.CycleError: if files wait for each other
    """
    order = list(_topological(before))
    connected = {name: {name} for name in order}
    for name, earlier in before.items():
        for other in earlier:
            together = connected[name] | connected[other]
            connected.update(dict.fromkeys(together, together))
    tasks: dict[str, list[str]] = {}
    for name in order:
        tasks.setdefault(min(connected[name]), []).append(name)
    return sorted(tasks.values())


def _topological(before: Mapping[str, Sequence[str]]) -> Iterator[str]:
    sorter = TopologicalSorter(before)
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        yield from ready
        sorter.done(*ready)
