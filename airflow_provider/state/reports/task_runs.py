"""The last attempts of a job's tasks: which worker has each, and how long it runs or took. Pure."""

from __future__ import annotations

from typing import Any

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.records.times import time_as_text
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import shown_status
from airflow_provider.values.model import TaskId


def task_runs(job: str, planned: int, jobs: JobsSnapshot, status: StatusSnapshot) -> dict[int, TaskStatus]:
    """The last status of each task of the job's present run that a worker has, or has had, by index."""
    last = ((index, shown_status(TaskId(job, index), jobs, status)) for index in range(planned))
    return {index: task for index, task in last if task is not None}


def run_to_json(status: TaskStatus, now_ms: int) -> dict[str, Any]:
    """The last attempt of a task, for people and for XCom.

    :param now_ms: wall clock; as another host's may differ, it is only used for tasks that still run
    """
    ms = status.running_ms(now_ms) if status.took_ms is None else status.took_ms
    far, words = status.progress or status.work, status.how_far(now_ms)
    last = {} if far is None else far.to_json()
    last.pop("at_ms", None)
    last.pop("lag", None)  # it was that of then
    if words:
        last["progress"] = words
    if status.progress is not None and status.progress.asked_at_ms is not None:
        last["last_batch_at"] = time_as_text(status.progress.asked_at_ms)
    if status.lag is not None:
        last["lag"] = status.lag.to_json(now_ms)
    if status.state is TaskState.STALLED and status.stalled_since_ms is not None:
        last["stalled_since"] = time_as_text(status.stalled_since_ms)
    return {
        "state": status.state.value,
        "worker": status.worker,
        **({"server": status.server} if status.server else {}),
        "attempt": status.attempt,
        **({"suspected": status.deaths} if status.deaths else {}),
        "started_at": None if status.started_at_ms is None else time_as_text(status.started_at_ms),
        "seconds": None if ms is None else ms / 1000,
        **last,
    }
