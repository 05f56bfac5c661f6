"""How long the tasks of jobs take. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from airflow_provider.state.records import TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot


def finished_times(jobs: JobsSnapshot, status: StatusSnapshot) -> Mapping[str, list[tuple[int, int]]]:
    """How long the finished tasks of each job's present run took (ms), each with its index."""
    times: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for task, last in status.tasks.items():
        took = last.took_ms if last.state is TaskState.FINISHED and not task.is_planner else None
        if took is not None:
            work = jobs.work_of(task)
            if work is not None and last.is_of(work.definition.run_key, work.fingerprint):
                times[task.job].append((took, task.index))
    return times
