"""All tasks of a group, ready for pages to be cut out of them: they are looked through once for all who ask."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.records import PlanRecord
from airflow_provider.ui.views.tasks import FoundTask, found_tasks, labels_of


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
        self._labels: dict[str, tuple[PlanRecord, Sequence[str]]] = {}

    def of(self, version: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Kept:
        """:param version: tells the snapshots of both apart"""
        with self._lock:
            if self._kept.version != version:
                self._kept = Kept(version, found_tasks(jobs, status, self._labels_of))
                self._labels = {job: known for job, known in self._labels.items() if job in jobs.jobs}
            return self._kept

    def _labels_of(self, job: str, plan: PlanRecord) -> Sequence[str]:
        """What a plan calls its tasks does not change with how they are."""
        known = self._labels.get(job)
        if known is None or known[0] is not plan:
            known = self._labels[job] = (plan, labels_of(job, plan))
        return known[1]
