"""Small stand-ins for what needs a broker or Spark, so that a worker can be tested in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.membership import Ended
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.group_requests.messages import (
    FindCoordinatorResponse,
    JoinMember,
    JoinRequest,
    JoinResponse,
    NodeId,
    SyncRequest,
    SyncResponse,
)
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.producer import NewRecord
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import (
    LastEvent,
    OnEvent,
    QueryDetached,
    QueryStarted,
    RunnerClosedError,
    SparkAbsent,
    SparkFaltered,
    SparkLost,
    StillRunningError,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
    WarmUpFailed,
    WarmUpProgressed,
    WarmUpReady,
)
from airflow_provider.state.records import Event, decode, event_from_json
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, GenerationId, MemberId, TaskId, Tasks, WorkerId


class MemoryTopics(GroupTopics):
    """A group's topics in memory: the real views and the real records, only what is between them is not Kafka.

    :ivar acknowledges: clear it, and who writes does not hear that a record is stored, although all can read it
    """

    def __init__(self, group: str = "g") -> None:
        super().__init__(KafkaSettings.from_extra({"bootstrap.servers": "nowhere:9"}, conn_id="tests"), group)
        self._memory = GroupFeed(group)
        self.failing: TopicError | None = None
        self.takes_s = 0.0
        self.acknowledges = asyncio.Event()
        self.acknowledges.set()
        self.writing = 0
        self.events: list[Event] = []

    def _followed(self) -> GroupFeed:
        return self._memory

    def _open(self) -> Any:
        return SimpleNamespace(outage=Outage("nowhere:9"))

    def attach(self) -> None: ...

    async def start(self, *, timeout_s: float = 30.0) -> None: ...

    async def aclose(self) -> None: ...

    async def catch_up(self, *, timeout_s: float | None = None) -> None:
        if self.failing is not None:
            raise self.failing

    async def _write_all(self, *records: NewRecord) -> None:
        writes = [self._write(*record) for record in records]
        await (asyncio.gather(*writes) if len(writes) > 1 else writes[0])

    async def _write(self, topic: str, key: str, value: bytes | None) -> None:
        self.writing += 1
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.writing -= 1
        if self.failing is not None:
            raise self.failing
        if topic == self.names.events:
            assert value is not None
            self.events.append(event_from_json(decode(value)))
            return
        feed = self._memory.jobs if topic == self.names.jobs else self._memory.status
        feed.take([Record(key.encode(), value, feed.offset)])
        await self.acknowledges.wait()

    @contextmanager
    def out_of_order(self, error: TopicError) -> Iterator[None]:
        """Nothing can be written meanwhile."""
        self.failing = error
        try:
            yield
        finally:
            self.failing = None


class HandRunner:
    """A runner whose tasks do what the test says, when it says so."""

    condition = spark_ui = ""
    opening = False

    def __init__(self, on_event: OnEvent, on_condition: Callable[[], None] = lambda: None) -> None:
        self._on_event = on_event
        self._on_condition = on_condition
        self.orders: list[TaskOrder] = []
        self.without_spark = ""
        self.told: list[tuple[TaskId, str]] = []
        self.stubborn: set[TaskId] = set()
        self.warming: dict[TaskId, TaskOrder] = {}
        self.adopted: set[TaskId] = set()
        self.let_begin: list[TaskId] = []
        self._running: dict[TaskId, TaskOrder] = {}
        self._begun: set[TaskId] = set()
        self._closed = False

    @property
    def running(self) -> Tasks:
        return frozenset(self._running)

    @property
    def begun(self) -> Tasks:
        """Whose code is called."""
        return self.running & self._begun

    def warm(self, order: TaskOrder) -> None:
        assert order.task not in self.warming
        self.warming[order.task] = order

    def stop_warming(self, task: TaskId) -> None:
        self.warming.pop(task, None)

    def warmed(self, task: TaskId, progress: float = 1.0) -> None:
        """A warm-up is so far."""
        order = self.warming[task]
        ready = progress == 1.0
        self._on_event(WarmUpReady(order=order) if ready else WarmUpProgressed(order=order, progress=progress))

    def warm_up_fails(self, task: TaskId) -> None:
        self._on_event(WarmUpFailed(order=self.warming.pop(task), error="no airports", traceback=""))

    def order_of(self, task: TaskId) -> TaskOrder:
        return self._running[task]

    async def start(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"{order.task} came too late")
        if order.task in self._running:
            raise StillRunningError(f"{order.task} runs already")
        self.orders.append(order)
        if self.warming.pop(order.task, None) is not None:
            self.adopted.add(order.task)
        if self.without_spark:
            self._on_event(SparkAbsent(order=order, error=self.without_spark))
            return
        self._running[order.task] = order
        self._begun.discard(order.task)
        self._on_event(TaskStarted(order=order))

    def proceed(self, task: TaskId) -> None:
        self.let_begin.append(task)
        self._begun.add(task)

    async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:
        tasks = frozenset(tasks)
        self.told += [(task, reason) for task in sorted(tasks & self.running)]
        for task in sorted((tasks & self.running) - self.stubborn):
            self._end(TaskStopped(order=self._running.pop(task), reason=reason))
        while tasks & self.running:
            await asyncio.sleep(0.005)
            if self._closed:
                break
        return tasks & self.running

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:
        self._closed = True
        return await self.stop(self.running, "the worker is closing", timeout_s=timeout_s)

    # ---- what the test says

    def streams(self, task: TaskId) -> None:
        self._on_event(QueryStarted(order=self._running[task], query_id="q"))

    def detaches(self, task: TaskId, handle: Any) -> None:
        self._end(QueryDetached(order=self._running.pop(task), handle=handle))

    def progress(self, task: TaskId, progress: QueryProgress | JobCounts) -> None:
        self._on_event(TaskProgressed(order=self._running[task], progress=progress))

    def finish(self, task: TaskId, result: Any = None) -> None:
        self._end(TaskFinished(order=self._running.pop(task), result=result))

    def fail(self, task: TaskId, error: str = "boom", *, traceback: str = "", retryable: bool = True) -> None:
        order = self._running.pop(task)
        self._end(TaskFailed(order=order, error=error, traceback=traceback, retryable=retryable))

    def lose(self, *tasks: TaskId, spark: int = 1) -> None:
        """Spark ends under these, which end one after the other."""
        for task in tasks:
            self._end(SparkLost(order=self._running.pop(task), spark=spark, error="exit code -9"))

    def change_condition(self, condition: str) -> None:
        self.condition = condition
        self._on_condition()

    def opens(self, opening: bool) -> None:
        self.opening = opening
        self._on_condition()

    def show_ui(self, address: str) -> None:
        self.spark_ui = address
        self._on_condition()

    def finds_no_room(self, task: TaskId, error: str) -> None:
        self._end(SparkFaltered(order=self._running.pop(task), error=error, lasts=True))

    def let_go(self, task: TaskId) -> None:
        """It stops at last."""
        self._end(TaskStopped(order=self._running.pop(task), reason="at last"))

    def _end(self, event: LastEvent) -> None:
        self._on_event(event)


class LonelyCoordinator:
    """A coordinator of a group with one member (a :class:`GroupTransport`): it answers soon, or as the test says."""

    principal = "User:etl"

    def __init__(self) -> None:
        self.generation = 0
        self.away: TransportError | None = None
        self.heartbeats_say = KafkaErrorCode.NONE
        self.joins_say = KafkaErrorCode.NONE
        self.left: list[str] = []
        self.when_left: Callable[[], None] = lambda: None
        self.released = 0

    async def find_coordinator(self, group_id: str) -> FindCoordinatorResponse:
        await self._answer()
        return FindCoordinatorResponse(error=KafkaErrorCode.NONE, node=NodeId(1))

    async def join(self, coordinator: NodeId, request: JoinRequest) -> JoinResponse:
        await self._answer()
        if self.joins_say is not KafkaErrorCode.NONE:
            return JoinResponse(error=self.joins_say)
        self.generation += 1
        name, metadata = request.protocols[0]
        member_id = request.member_id or MemberId(f"member-{self.generation}")
        member = JoinMember(member_id=member_id, group_instance_id=request.group_instance_id, metadata=metadata)
        return JoinResponse(
            error=KafkaErrorCode.NONE,
            generation=GenerationId(self.generation),
            protocol=name,
            leader=member_id,
            member_id=member_id,
            members=(member,),
        )

    async def sync(self, coordinator: NodeId, request: SyncRequest) -> SyncResponse:
        await self._answer()
        return SyncResponse(error=KafkaErrorCode.NONE, assignment=request.assignments[request.member_id])

    async def turn(self) -> None: ...

    async def heartbeat(
        self,
        coordinator: NodeId,
        group_id: str,
        generation: GenerationId,
        member_id: MemberId,
        worker: WorkerId | None,
        *,
        timeout_s: float | None = None,
    ) -> KafkaErrorCode:
        await self._answer()
        return self.heartbeats_say

    async def leave(
        self,
        coordinator: NodeId,
        group_id: str,
        member_id: MemberId,
        worker: WorkerId | None = None,
        *,
        reason: str = "",
    ) -> KafkaErrorCode:
        self.when_left()
        await self._answer()
        self.left.append(reason)
        return KafkaErrorCode.NONE

    async def release(self, member: WorkerId | MemberId) -> None:
        self.released += 1

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.away is not None:
            raise self.away


class SlowCoordinator(LonelyCoordinator):
    """Answers heartbeats and JoinGroup when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.hears = asyncio.Event()
        self.answers = asyncio.Event()
        self.hears.set()
        self.answers.set()
        self.heartbeats = 0
        self.joins: list[str] = []

    async def heartbeat(
        self,
        coordinator: NodeId,
        group_id: str,
        generation: GenerationId,
        member_id: MemberId,
        worker: WorkerId | None,
        *,
        timeout_s: float | None = None,
    ) -> KafkaErrorCode:
        self.heartbeats += 1
        await self.hears.wait()
        return await super().heartbeat(coordinator, group_id, generation, member_id, worker, timeout_s=timeout_s)

    async def join(self, coordinator: NodeId, request: JoinRequest) -> JoinResponse:
        number = len(self.joins)
        self.joins.append("waits")
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.joins[number] = "given up"
            raise
        self.joins[number] = "answered"
        return await super().join(coordinator, request)


class IdleListener:
    """A :class:`MembershipListener` that runs nothing."""

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None: ...

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None: ...

    def start_learning(self, tasks: Tasks) -> None: ...

    def stop_learning(self, tasks: Tasks) -> None: ...

    def may_leave(self) -> None: ...

    def assigned(self, epoch: Epoch) -> None: ...

    async def farewell(self) -> None: ...

    def ended(self, ended: Ended) -> None: ...
