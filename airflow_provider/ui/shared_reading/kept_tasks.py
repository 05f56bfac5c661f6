"""Keeps all tasks of a group, from which pages are cut, so that they are computed once for all viewers."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from airflow_provider.state.records import PlanRecord
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.views.tasks import FoundTask, KnownPlan, found_tasks


class KeptTasks:
    """Safe for threads: if several ask at the same time, one computes and the others wait for the result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = ""
        self._tasks: Sequence[FoundTask] = ()
        self._plans: dict[str, KnownPlan] = {}

    def of(self, version: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Sequence[FoundTask]:
        """All tasks of a group.

        :param version: identifies both snapshots
        """
        with self._lock:
            if self._version != version:
                self._version, self._tasks = version, found_tasks(jobs, status, self._known)
                self._plans = {job: known for job, known in self._plans.items() if job in jobs.jobs}
            return self._tasks

    def _known(self, job: str, plan: PlanRecord, record: GroupRecord | None) -> KnownPlan:
        before = self._plans.get(job)
        known = KnownPlan(job, plan, record) if before is None else before.again(job, plan, record)
        self._plans[job] = known
        return known
