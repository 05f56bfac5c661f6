"""Tells a worker's log in one line what happens to many of its tasks at the same time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from airflow_provider.values.in_short import in_short
from airflow_provider.worker.tasks.commands import TellOfTask

log = logging.getLogger(__name__)

TELL_AFTER_MS: Final = 5_000
"""All queries on a server are polled in this time, so the end of the server is known of all of them."""
_MOST_NAMES: Final = 5


class ToldTogether:
    """What is to be told, by what the tasks have in common.

    :param later: calls a function after so many milliseconds
    """

    def __init__(self, later: Callable[[int, Callable[[], None]], None]) -> None:
        self._later = later
        self._waiting: dict[str, dict[str, TellOfTask]] = {}

    def add(self, told: TellOfTask) -> None:
        about = told.incident or told.one
        if about not in self._waiting:
            self._waiting[about] = {}
            self._later(TELL_AFTER_MS, partial(self._tell, about))
        self._waiting[about][told.label] = told

    def tell_all(self) -> None:
        """Tell everything now, because the process may end."""
        for about in list(self._waiting):
            self._tell(about)

    def _tell(self, about: str) -> None:
        tasks = list(self._waiting.pop(about, {}).values())
        if tasks:
            log.log(logging.WARNING if tasks[0].warns else logging.INFO, "%s", _in_one_line(tasks))


def _in_one_line(tasks: list[TellOfTask]) -> str:
    first = tasks[0]
    if len(tasks) == 1:
        return first.message
    line = f"tasks {in_short([each.label for each in tasks], most=_MOST_NAMES)} {first.many}"
    if not first.why:
        return line
    alike = all(each.why == first.why for each in tasks)
    return f"{line}: {first.why}" if alike else f"{line}; {first.label}: {first.why}"
