"""The status topic as the product's view reads it, with the start that each status of a task belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider.state.records import Key, KeyKind, TaskState, TaskStatus, WorkerStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusRecord, StatusSnapshot, StatusView
from airflow_provider.state.views.topic_view import About, Parsed
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWord:
    """A worker's status of a task.

    :param start: the number of the start it belongs to, over all workers; None for a task that waits
    """

    status: TaskStatus
    start: int | None

    @property
    def running(self) -> bool:
        return self.status.state is TaskState.RUNNING


class StatusTopic:
    """The state of the topic for its readers.

    :param on_hint: called when a record hints at a rebalance
    :ivar groups: the records of rounds that won
    :ivar tasks: the winning statuses of tasks
    """

    def __init__(self, on_hint: Callable[[], None]) -> None:
        self._on_hint = on_hint
        self._view = StatusView(on_stale=self._note_stale, clock=lambda: 0)
        self._lost = False
        self.groups: list[ClassicRecord] = []
        self.tasks: dict[TaskId, TaskWord] = {}

    @property
    def group(self) -> ClassicRecord | None:
        record = self.snapshot().group
        assert record is None or isinstance(record, ClassicRecord)
        return record

    @group.setter
    def group(self, record: ClassicRecord | None) -> None:
        """Replace whatever was known."""
        self._put(Key(kind=KeyKind.GROUP), None)
        if record is not None:
            self._put(Key(kind=KeyKind.GROUP), record)

    @property
    def given_up(self) -> Tasks:
        """The lessons that were given up."""
        memory = None if self.group is None else self.group.learner_memory
        return NO_TASKS if memory is None else NO_TASKS.union(*memory.given_up.values())

    def snapshot(self) -> StatusSnapshot:
        return self._view.snapshot()

    def put_worker(self, said: WorkerStatus) -> None:
        """A worker's record arrives."""
        self._put(Key(kind=KeyKind.WORKER, name=said.worker), said)

    def put_group(self, record: ClassicRecord) -> bool:
        """:return: whether it wins"""
        wins = self._put(Key(kind=KeyKind.GROUP), record)
        if wins:
            self.groups.append(record)
        return wins

    def put_task(self, word: TaskWord) -> bool:
        """:return: whether it wins"""
        task = word.status.task
        wins = self._put(Key(kind=KeyKind.TASK, name=task.job, index=task.index), word.status)
        if wins:
            self.tasks[task] = word
        return wins

    def leave_out(self, task: TaskId, jobs: JobsSnapshot) -> None:
        """Mark a task as ended that is in its job's plan but never wanted."""
        work, known = jobs.work_of(task), self.tasks.get(task)
        assert work is not None
        ended = TaskStatus(
            task=task,
            state=TaskState.FINISHED,
            epoch=known.status.epoch if known is not None else Epoch(0),
            worker=WorkerId("nobody"),
            fingerprint=work.fingerprint,
            attempt=known.status.attempt + 1 if known is not None else 1,
        )
        self.put_task(TaskWord(status=ended, start=None))

    def forget_task(self, task: TaskId) -> None:
        """A tombstone for the task."""
        self._put(Key(kind=KeyKind.TASK, name=task.job, index=task.index), None)
        self.tasks.pop(task, None)

    def _note_stale(self, _key: str, _winner: StatusRecord) -> None:
        self._lost = True

    def _put(self, key: Key, content: StatusRecord | None) -> bool:
        self._lost = False
        self._view.take(Parsed(self._view.offset, key, content))
        if self._view.take_news() & About.HINTS:
            self._on_hint()
        return not self._lost
