"""What a worker writes of its tasks, and what it remembers of that while it may still be on its way to the topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.ledger.records import PlanRecord, TaskState, TaskStatus
from airflow_provider.protocol.model import Epoch, TaskId, WorkerId
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.journal import Journal, Write
from airflow_provider.worker.runs import TaskRun, last_word


class TaskRecords:
    """The records of one worker's tasks. What is not awaited is written soon, in the order in which it was said."""

    def __init__(self, worker: WorkerId, topics: GroupTopics) -> None:
        self._worker = worker
        self._topics = topics
        self._journal = Journal(worker)
        self._stops: dict[TaskId, TaskStatus] = {}

    def last_word(self, task: TaskId) -> TaskStatus | None:
        """The newest that is known of a task; asked once, when the worker is given it."""
        return last_word(self._topics.status.tasks.get(task), self._stops.pop(task, None))

    def forget_removed_jobs(self) -> None:
        jobs = self._topics.jobs.jobs
        self._stops = {task: stopped for task, stopped in self._stops.items() if task.job in jobs}

    def pending(self, run: TaskRun) -> None:
        self._say(run.status(TaskState.PENDING, self._worker))

    def running(self, run: TaskRun) -> None:
        self._say(run.status(TaskState.RUNNING, self._worker))

    def progressed(self, run: TaskRun) -> None:
        """What nobody waits for: that the task runs has been said. It is no step of the timeline."""
        status = run.status(TaskState.RUNNING, self._worker)
        self._journal.note(lambda: self._topics.publish_progress(status))

    def stopped(self, run: TaskRun, *, started: bool = True) -> None:
        """:param started: whether there was anything of it that has ended now"""
        status = run.status(TaskState.STOPPED, self._worker, finished_at_ms=wall_ms() if started else None)
        self._stops[run.task] = status
        self._write(status, lambda: self._publish_last(status))

    def remember_stopped(self, run: TaskRun) -> None:
        """Say nothing of it, and know it if the task comes back."""
        self._stops[run.task] = run.status(TaskState.STOPPED, self._worker)

    async def plan(self, plan: PlanRecord) -> None:
        """:raises TooLargeError: if no broker will ever take it"""
        await self._journal.insist(lambda: self._topics.publish_plan(plan))

    async def ended(
        self, run: TaskRun, state: TaskState, *, present_epoch: Callable[[], Epoch], ended_at_ms: int, result: Any
    ) -> None:
        """In the epoch in which the task is released: a leader would not know it from a word of an earlier one.

        :param present_epoch: gives the one that the worker is in by now
        :raises TooLargeError: if no broker will ever take it
        """
        said_in = Epoch(-1)

        async def say() -> None:
            nonlocal said_in
            said_in = present_epoch()
            present = replace(run, epoch=said_in)
            await self._publish_last(present.status(state, self._worker, finished_at_ms=ended_at_ms, result=result))

        self._journal.outdate(run.task)
        while said_in < present_epoch():
            await self._journal.insist(say)

    async def flush(self, timeout_s: float) -> None:
        """See :meth:`Journal.flush`."""
        await self._journal.flush(timeout_s)

    def _say(self, status: TaskStatus) -> None:
        self._write(status, lambda: self._topics.publish_task(status))

    def _write(self, status: TaskStatus, write: Write) -> None:
        """Others may wait for what is said of a task with a claim."""
        if status.claim is None:
            self._journal.note(write)
        else:
            self._journal.keep(status.task, write)

    async def _publish_last(self, status: TaskStatus) -> None:
        """The last word about a task of a job that was removed is that there is nothing more to say of it."""
        await self._topics.publish_task(status)
        if status.task.job not in self._topics.jobs.jobs:
            await self._topics.forget_task(status.task)
