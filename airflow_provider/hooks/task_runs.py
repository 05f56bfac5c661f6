"""Where each task of a job is: who has it, since when it runs or how long it took. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_provider.kafka.progress import effective_status
from airflow_provider.kafka.records import StreamProgress, TaskState, TaskStatus
from airflow_provider.kafka.topics.jobs_view import JobsSnapshot
from airflow_provider.kafka.topics.status_view import StatusSnapshot
from airflow_provider.membership.model import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunReport:
    """The last attempt of a task.

    :param started_at_ms: wall clock, milliseconds since 1970; None: it has not begun
    :param ended_at_ms: the same; None: it has not ended
    :param progress: of a stream: its last batch, not older than half a minute while it has new ones
    """

    state: TaskState
    worker: str
    attempt: int
    started_at_ms: int | None
    ended_at_ms: int | None
    progress: StreamProgress | None = None

    @classmethod
    def of(cls, status: TaskStatus) -> TaskRunReport:
        return cls(
            state=status.state,
            worker=status.worker,
            attempt=status.attempt,
            started_at_ms=status.started_at_ms,
            ended_at_ms=status.finished_at_ms,
            progress=status.progress,
        )

    def seconds(self, now_ms: int) -> float | None:
        """How long it has run, or did run; None if nobody can say.

        :param now_ms: wall clock; another host's may differ, so it counts for what still runs only
        """
        end_ms = self.ended_at_ms if self.ended_at_ms is not None else now_ms
        if self.started_at_ms is None or (self.ended_at_ms is None and self.state is not TaskState.RUNNING):
            return None
        return round(max(0, end_ms - self.started_at_ms) / 1000, 3)

    def to_json(self, now_ms: int) -> dict[str, Any]:
        progress = self.progress
        last = {} if progress is None else {"batch": progress.batch, "rows_per_second": progress.rows_per_second}
        return {
            "state": self.state.value,
            "worker": self.worker,
            "attempt": self.attempt,
            "started_at": None if self.started_at_ms is None else time_of(self.started_at_ms),
            "seconds": self.seconds(now_ms),
            **last,
        }


def task_runs(job: str, planned: int, jobs: JobsSnapshot, status: StatusSnapshot) -> dict[int, TaskRunReport]:
    """By index, those tasks of the job's present run that somebody has, or has had."""
    last = ((index, effective_status(TaskId(job, index), jobs, status)) for index in range(planned))
    return {index: TaskRunReport.of(told) for index, told in last if told is not None}


def time_of(wall_ms: int) -> str:
    """In ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(wall_ms // 1000, tz=timezone.utc).isoformat()
