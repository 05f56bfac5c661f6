"""The status topic: who wrote what, in the order in which it arrived, and what wins by the product's own rules."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.ledger.records.status import TaskState, TaskStatus, WorkerStatus
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.model import Epoch, TaskId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWord:
    """A worker's word about a task.

    :param start: the number of the start that it is about, counted over all workers
    """

    status: TaskStatus
    start: int

    @property
    def running(self) -> bool:
        return self.status.state is TaskState.RUNNING


class StatusTopic:
    """What a reader of the topic takes for true."""

    def __init__(self) -> None:
        self.group: ClassicRecord | None = None
        self.groups: list[ClassicRecord] = []
        self.workers: dict[WorkerId, WorkerStatus] = {}
        self.tasks: dict[TaskId, TaskWord] = {}
        self.stale = 0
        self.spoken_epoch = Epoch(0)

    def put_worker(self, said: WorkerStatus) -> None:
        """A worker says what it has by now."""
        self.spoken_epoch = max(self.spoken_epoch, said.epoch)
        known = self.workers.get(said.worker)
        if known is None or not said.is_stale(known):
            self.workers[said.worker] = said

    def snapshot(self) -> StatusSnapshot:
        """As the product's functions take it."""
        return StatusSnapshot(
            group=self.group, workers=self.workers, tasks={task: word.status for task, word in self.tasks.items()}
        )

    def put_group(self, record: ClassicRecord) -> bool:
        """:return: whether it wins"""
        known = self.group
        if known is not None and (
            record.epoch < known.epoch
            or (record.epoch == known.epoch and not record.is_round(known.generation, known.leader_member))
        ):
            self.stale += 1
            return False
        self.groups.append(record)
        self.group = record
        return True

    def put_task(self, word: TaskWord) -> bool:
        """:return: whether it wins"""
        self.spoken_epoch = max(self.spoken_epoch, word.status.epoch)
        known = self.tasks.get(word.status.task)
        if known is not None and word.status.is_stale(known.status):
            self.stale += 1
            return False
        self.tasks[word.status.task] = word
        return True
