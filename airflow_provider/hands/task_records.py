"""Writes what the machine says of a worker's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from airflow_provider.execution.commands import WriteEnd, WriteHandle, WritePlan
from airflow_provider.execution.events import (
    EndRefused,
    EndWritten,
    Event,
    HandleWritten,
    PlanRefused,
    PlanWritten,
)
from airflow_provider.hands.steps import Steps
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.protocol.model import TaskId, WorkerId
from airflow_provider.records import TaskStatus
from airflow_provider.topics.errors import TooLargeError, TopicError
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.journal import Journal, Write

_Publish = Callable[[TaskStatus], Awaitable[None]]


@dataclass(slots=True)
class _Insisted:
    """What is written again and again until it is stored.

    :ivar newest: what is to be written next
    :ivar told: whether the timeline has this end, of an earlier epoch: it is no other step in a later one
    """

    newest: WriteEnd | WriteHandle | WritePlan
    told: bool = False


class TaskRecords:
    """The records of one worker's tasks. What nobody waits for is written once, in the order in which it was said.

    :param feed: gets what became of the records that the machine waits for
    :param steps: keeps what is wrong with that
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
        """What nobody waits for: that the task runs has been said. It is no step of the timeline."""
        self._journal.note(lambda: self._topics.publish_word(status))

    def stopped(self, status: TaskStatus) -> None:
        self._write(status, lambda: self._publish_last(status, self._topics.publish_task))

    def end(self, command: WriteEnd) -> None:
        """Write it until it is stored, in place of an older one that is not."""
        task = command.status.task
        self._journal.outdate(task)
        self._insist(task, command)

    def handle(self, command: WriteHandle) -> None:
        """Write it until it is stored."""
        self._insist(command.status.task, command)

    def plan(self, command: WritePlan) -> None:
        """Write it until it is stored."""
        self._insist(command.task, command)

    def give_up(self, task: TaskId) -> None:
        """Write its end, its plan, or where it is to begin, no more."""
        self._insisted.pop(task, None)
        self._look_whether_settled()

    async def settle_ends(self, timeout_s: float) -> None:
        """Wait until what must not be lost is stored; no longer than that."""
        self._settled.clear()
        if self._insisted:
            with anyio.move_on_after(timeout_s):
                await self._settled.wait()

    async def flush(self, timeout_s: float) -> None:
        """See :meth:`Journal.flush`."""
        self._insisted.clear()
        await self._journal.flush(timeout_s)

    def _write(self, status: TaskStatus, write: Write) -> None:
        """Others may wait for what is said of a task with a claim."""
        if status.claim is None:
            self._journal.note(write)
        else:
            self._journal.keep(status.task, write)

    def _insist(self, task: TaskId, command: WriteEnd | WriteHandle | WritePlan) -> None:
        known = self._insisted.get(task)
        if known is not None:
            known.newest = command
            return
        self._insisted[task] = insisted = _Insisted(command)
        self._try(task, insisted)

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
                self._look_whether_settled()  # what is stored may be followed by more, as a plan is by an end
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
        """The last word about a task of a job that was removed is that there is nothing more to say of it."""
        if self._is_removed(status):
            return self._publish_and_forget(status, publish)
        written = asyncio.ensure_future(publish(status))
        written.add_done_callback(lambda _: self._forget_if_removed(status))
        return written

    async def _publish_and_forget(self, status: TaskStatus, publish: _Publish) -> None:
        await publish(status)
        await self._topics.forget_task(status.task)

    def _forget_if_removed(self, status: TaskStatus) -> None:
        """The removal was read while the record was on its way."""
        if self._is_removed(status):
            self._journal.note(lambda: self._topics.forget_task(status.task))

    def _is_removed(self, status: TaskStatus) -> bool:
        return status.task.job not in self._topics.jobs.jobs

    def _look_whether_settled(self) -> None:
        if not self._insisted:
            self._settled.set()


def _outcome(command: WriteEnd | WriteHandle | WritePlan, failed: BaseException | None) -> Event:
    """:raises BaseException: what is none of the broker's refusals"""
    now, wall, number = now_ms(), wall_ms(), command.number
    if isinstance(command, WriteHandle):
        if failed is not None:
            raise failed
        return HandleWritten(now_ms=now, wall_ms=wall, task=command.status.task, number=number)
    if isinstance(command, WritePlan):
        if failed is None:
            return PlanWritten(now_ms=now, wall_ms=wall, task=command.task, number=number)
        if isinstance(failed, TooLargeError):
            return PlanRefused(now_ms=now, wall_ms=wall, task=command.task, number=number, refusal=str(failed))
        raise failed
    if failed is None:
        return EndWritten(now_ms=now, wall_ms=wall, task=command.status.task, number=number)
    if isinstance(failed, TooLargeError):
        return EndRefused(now_ms=now, wall_ms=wall, task=command.status.task, number=number, refusal=str(failed))
    raise failed
