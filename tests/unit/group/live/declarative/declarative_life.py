"""A worker's life in a declarative group: its coordinator is the real one, in this process and without topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from stand_ins import MemoryTopics
from worker_life import A0, A1, ME, Life

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.declarative.assignors import assignors_offered
from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.events import (
    Effects,
    JobsRead,
    RequestArrived,
    RequestId,
    TimerFired,
)
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    ReplyBody,
    RequestBody,
    decode_request,
    encode_request,
    request_of,
)
from airflow_provider.group.declarative.requests.request_channel import NoReplyError
from airflow_provider.group.live.declarative.declarative_member import DeclarativeMember
from airflow_provider.group.live.declarative.declarative_membership import DeclarativeMemberships, DeclarativeProtocol
from airflow_provider.group.membership import KnowsGone
from airflow_provider.kafka.clock import now_ms
from airflow_provider.state.records import TaskKind
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import WorkerId

SESSION_MS = 10_000  # what nobody waits for is to outlast the pauses of a busy machine
SHORT_SESSION_MS = 600


def coordinator_settings(session_ms: int = SESSION_MS) -> CoordinatorSettings:
    return CoordinatorSettings(session_timeout_ms=session_ms, heartbeat_interval_ms=30)


class NearChannel:
    """Asks a coordinator in this process (a
    :class:`~airflow_provider.group.declarative.requests.request_channel.RequestChannel`).

    :ivar away: nobody replies
    :ivar asked: what was asked
    :ivar written: whether that lies in the topic
    :ivar settling: whether somebody waits for it
    """

    def __init__(self, topics: MemoryTopics, settings: CoordinatorSettings | None = None) -> None:
        self.away = False
        self.asked: list[RequestBody] = []
        self.written = asyncio.Event()
        self.written.set()
        self.settling = False
        self.coordinator = Coordinator(settings or coordinator_settings())
        self._topics = topics
        self._ids = count(1)
        self._waiting: dict[RequestId, asyncio.Future[ReplyBody]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._take(self.coordinator.loaded(now_ms()))
        self._unsubscribe = topics.subscribe(self._read, About.JOBS | About.TASKS)
        self._read()

    async def ask(self, body: RequestBody, *, timeout_s: float) -> ReplyBody:
        body = decode_request(encode_request(request_of(body, correlation_id=1, reply_partition=0))).body
        self.asked.append(body)
        if self.away:
            raise NoReplyError("away")
        request = RequestId(next(self._ids))
        self._waiting[request] = asyncio.get_running_loop().create_future()
        self._take(self.coordinator.handle(RequestArrived(now_ms=now_ms(), request=request, body=body)))
        try:
            return await asyncio.wait_for(self._waiting[request], timeout_s)
        except (TimeoutError, asyncio.TimeoutError):
            raise NoReplyError(f"none in {timeout_s} s") from None
        finally:
            del self._waiting[request]

    async def settle(self) -> None:
        self.settling = True
        await self.written.wait()
        self.settling = False

    def close(self) -> None:
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()

    def _read(self) -> None:
        tasks = configured(self._topics.jobs, self._topics.status.tasks)
        self._take(self.coordinator.handle(JobsRead(now_ms=now_ms(), group_id="g", tasks=tasks)))

    def _fire(self) -> None:
        self._take(self.coordinator.handle(TimerFired(now_ms=now_ms())))

    def _take(self, effects: Effects) -> None:
        for reply in effects.replies:
            waiting = self._waiting.get(reply.request)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply.body)
        if self._timer is not None:
            self._timer.cancel()
        if effects.timer_at_ms is not None:
            wait_s = max(0, effects.timer_at_ms - now_ms() + 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._fire)


def memberships(
    channel: NearChannel,
    topics: Any,
    worker: WorkerId = ME,
    *,
    session_ms: int = SESSION_MS,
    max_delay_ms: int = 300,
    is_gone: KnowsGone | None = None,
    returns_ms: int | None = None,
) -> DeclarativeMemberships:
    settings = DeclarativeSettings(
        group_id="g",
        worker=worker,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=30,
        lease_margin_ms=200,
        retry_backoff_ms=10,
        retry_backoff_max_ms=40,
    )
    protocol = DeclarativeProtocol(
        settings, assignors_offered(policy=Deferred(max_delay_ms=max_delay_ms)), 2, returns_ms
    )
    return DeclarativeMemberships(protocol, channel, topics, is_gone)


class DeclarativeLife(Life):
    """A worker's life in such a group."""

    def __init__(self, session_ms: int = SESSION_MS, **settings: Any) -> None:
        super().__init__(**settings)
        self.session_ms = session_ms
        self.channel = NearChannel(self.topics, coordinator_settings(session_ms))

    def memberships(self) -> DeclarativeMemberships:
        return memberships(self.channel, self.topics, session_ms=self.session_ms, returns_ms=self.settings.returns_ms)

    def others(self, worker: str, *, is_gone: KnowsGone | None = None) -> DeclarativeMemberships:
        """Of another worker of the group."""
        return memberships(self.channel, self.topics, WorkerId(worker), session_ms=self.session_ms, is_gone=is_gone)

    @property
    def declarative(self) -> DeclarativeMember:
        assert isinstance(self.worker.member, DeclarativeMember)
        return self.worker.member


@asynccontextmanager
async def living_declared(session_ms: int = SESSION_MS, **settings: Any) -> AsyncIterator[DeclarativeLife]:
    """It has the tasks A0 and A1, and runs them."""
    life = DeclarativeLife(session_ms, **settings)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    try:
        await life.runs(A0, A1)
        yield life
    finally:
        if life.runner is not None:
            life.runner.stubborn.clear()
        await life.cancel()
        life.channel.close()
    assert len(asyncio.all_tasks()) == 1, f"left behind: {asyncio.all_tasks()}"
