"""Lists the first few names, and how many more there are: a group may have thousands of workers and tasks."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.values.model import TaskId


def in_short(names: Sequence[str | TaskId], *, of: int | None = None, most: int = 3) -> str:
    """List names as in "a, b, c and 4 more".

    :param of: how many there are in all, if ``names`` are only the first of them
    :param most: how many of them are named
    """
    more = (len(names) if of is None else of) - most
    shown = ", ".join(map(str, names[:most]))
    return f"{shown} and {more} more" if more > 0 else shown
