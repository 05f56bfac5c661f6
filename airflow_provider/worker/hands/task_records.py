"""Writes the records of a worker's tasks, as the machine decides."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from airflow_provider.kafka.topics.errors import TooLargeError, TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import TaskStatus
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.model import TaskId, WorkerId
from airflow_provider.worker.hands.steps import Steps
from airflow_provider.worker.reporting.journal import Journal, Write
from airflow_provider.worker.tasks.commands import WriteEnd, WritePlan, WriteStart
from airflow_provider.worker.tasks.events import EndRefused, EndWritten, Event, PlanRefused, PlanWritten, StartWritten

_Publish = Callable[[TaskStatus], Awaitable[None]]


@dataclass(slots=True)
class _Insisted:
    """A record that is written again and again until it is stored.

    :ivar newest: what is to be written next
    :ivar told: whether the timeline has this end already, in an earlier epoch: then it is not written there again
    """

    newest: WriteEnd | WriteStart | WritePlan
    told: bool = False


class TaskRecords:
    """The records of one worker's tasks. Records that nobody waits for are written once, in their order.

    :param feed: called with the outcome of the records that the machine waits for
    :param steps: catches faults of this
    """

    def __init__(self, worker: WorkerId, topics: GroupTopics, *, feed: Callable[[Event], None], steps: Steps) -> None:
        self._topics = topics
        self._feed = feed
        self._steps = steps
        self._journal = Journal(worker)
        self._insisted: dict[TaskId, _Insisted] = {}
        self._settled = asyncio.Event()

    def write(self, status: TaskStatus) -> None:
        self._write(status, lambda: self._topics.publish_task(status))

    def progressed(self, status: TaskStatus) -> None:
        """Write progress. Nobody waits for it, and it is not shown on the timeline."""
        self._journal.note(lambda: self._topics.publish_word(status))

    def stopped(self, status: TaskStatus, written: Callable[[], None] = lambda: None) -> None:
        """Write that a task has stopped.

        :param written: called when this is stored, or can't be
        """

        def write() -> Awaitable[object]:
            try:
                writing = asyncio.ensure_future(self._publish_last(status, self._topics.publish_task))
            except Exception:
                written()
                raise
            writing.add_done_callback(lambda _: written())
            return writing

        self._write(status, write)

    def insist(self, command: WriteEnd | WriteStart | WritePlan) -> None:
        """Write it until it is stored. A start or an end replaces an older record that is not stored yet."""
        if isinstance(command, WritePlan):
            task = command.task
        else:
            task = command.status.task
            self._journal.outdate(task)
        known = self._insisted.get(task)
        if known is not None:
            known.newest = command
            return
        self._insisted[task] = insisted = _Insisted(command)
        self._try(task, insisted)

    def give_up(self, task: TaskId) -> None:
        """Stop trying to write the task's end, plan or start."""
        self._insisted.pop(task, None)
        self._look_whether_settled()

    async def settle_ends(self, timeout_s: float) -> None:
        """Wait until all records that must not be lost are stored, at most this long."""
        self._settled.clear()
        if self._insisted:
            with contextlib.suppress(DeadlineError):
                await wait_at_most(timeout_s, self._settled.wait())

    async def flush(self, timeout_s: float) -> None:
        """See :meth:`Journal.flush`."""
        self._insisted.clear()
        await self._journal.flush(timeout_s)

    def _write(self, status: TaskStatus, write: Write) -> None:
        """Other workers may wait for the record of a task with a claim, so don't drop it."""
        if status.claim is None:
            self._journal.note(write)
        else:
            self._journal.keep(status.task, write)

    def _try(self, task: TaskId, insisted: _Insisted) -> None:
        command = insisted.newest

        def tried(failed: BaseException | None) -> None:
            if self._insisted.get(task) is not insisted:
                return  # given up
            if failed is None and insisted.newest is not command:
                insisted.told = isinstance(command, WriteEnd)
                self._try(task, insisted)
            elif failed is None or isinstance(failed, TooLargeError) or not isinstance(failed, TopicError):
                del self._insisted[task]
                self._steps.guarded(lambda: self._feed(_outcome(command, failed)))
                self._look_whether_settled()  # afterwards: the machine may write more, such as an end after a plan
            else:
                self._journal.later(again)

        def again() -> None:
            if self._insisted.get(task) is insisted:
                self._try(task, insisted)

        if isinstance(command, WritePlan):
            self._journal.attempt(lambda: self._topics.publish_plan(command.plan), tried)
        else:
            publish = self._topics.publish_word if insisted.told else self._topics.publish_task
            self._journal.attempt(lambda: self._publish_last(command.status, publish), tried)

    def _publish_last(self, status: TaskStatus, publish: _Publish) -> Awaitable[object]:
        """Write the last record of a task. If its job was removed, delete the record after that."""
        if self._is_removed(status):
            return self._publish_and_forget(status, publish)
        written = asyncio.ensure_future(publish(status))
        written.add_done_callback(lambda _: self._forget_if_removed(status))
        return written

    async def _publish_and_forget(self, status: TaskStatus, publish: _Publish) -> None:
        await publish(status)
        await self._topics.forget_task(status)

    def _forget_if_removed(self, status: TaskStatus) -> None:
        """Delete the record if the removal was read while the record was being written."""
        if self._is_removed(status):
            self._journal.note(lambda: self._topics.forget_task(status))

    def _is_removed(self, status: TaskStatus) -> bool:
        return status.task.job not in self._topics.jobs.jobs

    def _look_whether_settled(self) -> None:
        if not self._insisted:
            self._settled.set()


def _outcome(command: WriteEnd | WriteStart | WritePlan, failed: BaseException | None) -> Event:
    """:raises BaseException: any error other than a refusal by the broker"""
    number = command.number
    if isinstance(command, WriteStart):
        if failed is not None:
            raise failed
        return StartWritten(task=command.status.task, number=number)
    if isinstance(command, WritePlan):
        if failed is None:
            return PlanWritten(task=command.task, number=number)
        if isinstance(failed, TooLargeError):
            return PlanRefused(task=command.task, number=number, refusal=str(failed))
        raise failed
    if failed is None:
        return EndWritten(task=command.status.task, number=number)
    if isinstance(failed, TooLargeError):
        return EndRefused(task=command.status.task, number=number, refusal=str(failed))
    raise failed
