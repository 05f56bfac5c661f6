"""A group in which a task has failed, for tests of who is to blame and where the task is tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from led_group import EPOCH, Group

from airflow_provider.state.blame.tried_elsewhere import better_places
from airflow_provider.state.records import StreamProgress, TaskFailure, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.values.model import MemberId, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

A0, A1, A2, A3 = (TaskId("a", index) for index in range(4))
W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
NOW = 10_000_000
BOOM = TaskFailure.of("ModuleNotFoundError: No module named 'kafka_source'")
BATCH = StreamProgress(batch=3, rows_per_second=1.0, at_ms=NOW)


def said(worker: WorkerId, **fields: Any) -> WorkerStatus:
    standard = WorkerStatus(worker=worker, state=WorkerPhase.STABLE, epoch=EPOCH, slots=4, member_id=MemberId(worker))
    return replace(standard, **fields)


class Blamed(Group):
    """A group of workers with four slots each, in which a task has failed."""

    def __init__(self, workers: dict[str, str], *, retries: int = 3, **slots: int) -> None:
        super().__init__(workers)
        self.jobs = replace(self.jobs, jobs={"a": replace(self.job, retries=retries)})
        names = map(WorkerId, workers)
        self.status = replace(self.status, workers={name: said(name, slots=slots.get(name, 4)) for name in names})

    def tell(self, task: TaskId, **fields: Any) -> None:
        told = {**self.status.tasks, task: replaced(self.status.tasks[task], **fields)}
        self.status = replace(self.status, tasks=told)

    def fails(self, task: TaskId, *workers: WorkerId, failures: int = 1) -> None:
        self.tell(task, state=TaskState.PENDING, failed_on=workers, failures=failures, error=BOOM)

    def say(self, worker: WorkerId, **fields: Any) -> None:
        self.status = replace(
            self.status, workers={**self.status.workers, worker: replace(self.status.workers[worker], **fields)}
        )

    def hand(self, task: TaskId, worker: WorkerId) -> None:
        """The last round gave it to this worker."""
        assignment = {name: tasks - {task} for name, tasks in self.record.assignment.items()}
        assignment[worker] |= {task}
        self.status = replace(self.status, group=replace(self.record, assignment=assignment))

    @property
    def places(self) -> dict[TaskId, WorkerId]:
        return dict(better_places(self.jobs, self.status, wall_ms=NOW))


def failed_beside_healthy(**slots: int) -> Blamed:
    """The first task of w1 has failed; a stream of w2 goes well."""
    group = Blamed({"w1": "p p", "w2": "s s"}, **slots)
    group.tell(A2, progress=BATCH)
    group.fails(A0, W1)
    return group
