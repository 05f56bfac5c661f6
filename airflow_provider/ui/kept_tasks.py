"""All tasks of a group, ready for pages to be cut out of them: they are looked through once for all who ask."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ui.views.tasks import FoundTask, found_tasks


class Kept(NamedTuple):
    """The tasks as they were.

    :param version: of the group, when they were looked through
    """

    version: str
    tasks: Sequence[FoundTask]


NOTHING_KEPT: Final = Kept("", ())


class KeptTasks:
    """Safe for threads: of those who ask together one looks, and the others wait for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = NOTHING_KEPT

    def of(self, version: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Kept:
        """:param version: tells the snapshots of both apart"""
        with self._lock:
            if self._kept.version != version:
                self._kept = Kept(version, found_tasks(jobs, status))
            return self._kept
