"""Sends requests to the coordinators of declarative groups: a request in one topic, its reply in another.

All memberships of an event loop share one consumer, one producer and one thread (:class:`WorkerRequests`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count
from typing import Final, Protocol

from airflow_provider.group.declarative.protocol.wire.messages.apis import Reply, ReplyBody, RequestBody
from airflow_provider.group.declarative.requests.worker_requests import APPEAR_S, WorkerRequests
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

_NUMBERS: Final = 2**31
"""The number of correlation ids. A coordinator ignores requests with a lower id than it has seen before."""

_SETTLE_S: Final = 2.0


class NoReplyError(Exception):
    """A request was not answered: it could not be written, or no reply came in time. It may have been handled."""


class RequestChannel(Protocol):
    """Sends requests to the coordinators of groups."""

    async def ask(self, body: RequestBody, *, timeout_s: float) -> ReplyBody:
        """Send a request and return its reply, which may have an error code. It may be cancelled while it waits.

        :raises NoReplyError: there was no reply
        """

    async def settle(self) -> None:
        """Wait until all requests so far are written, or have failed, but not for long. Must not raise."""


class KafkaChannel:
    """A :class:`RequestChannel` over topics, for one event loop."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[ReplyBody]] = {}
        self._unwritten: set[Future[None]] = set()
        self._numbers: Final = count(1)
        self._requests: Final = WorkerRequests(settings, heard=self._heard, failed=self._failed)

    async def open(self, *, appear_s: float = APPEAR_S) -> None:
        """Find the topics, and begin to read replies.

        :param appear_s: how long to wait for missing topics: a coordinator that starts now creates them
        :raises TopicError: the topics are missing, can't be used, or no broker answers
        """
        await asyncio.to_thread(self._requests.open, appear_s=appear_s)

    async def aclose(self) -> None:
        """Close the Kafka clients."""
        await asyncio.to_thread(self._requests.close)

    async def ask(self, body: RequestBody, *, timeout_s: float) -> ReplyBody:
        number = next(self._numbers) % _NUMBERS
        answered: asyncio.Future[ReplyBody] = self._loop.create_future()
        self._waiting[number] = answered
        try:
            written = self._requests.send(body, correlation_id=number)
            self._unwritten.add(written)
            written.add_done_callback(self._unwritten.discard)
            return await wait_at_most(timeout_s, answered)
        except DeadlineError:
            self._requests.doubt()
            raise NoReplyError(f"no coordinator replied within {timeout_s:.3g} s; {self._what_to_do()}") from None
        finally:
            del self._waiting[number]

    async def settle(self) -> None:
        unwritten = [asyncio.wrap_future(one) for one in tuple(self._unwritten)]
        if unwritten:
            await asyncio.wait(unwritten, timeout=_SETTLE_S)

    def _what_to_do(self) -> str:
        deaf = self._requests.problem
        return "if none runs, start one: cospark coordinator" if deaf is None else f"its reply can't be read: {deaf}"

    # ---- called in the thread of the requests

    def _heard(self, replies: Sequence[Reply]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._settle, replies)

    def _failed(self, correlation_id: int, why: str) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._refuse, correlation_id, why)

    # ---- in the loop

    def _settle(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            answered = self._waiting.get(reply.header.correlation_id)
            if reply.body.error_code == KafkaErrorCode.NOT_COORDINATOR:
                self._requests.doubt()
            if answered is not None and not answered.done():
                answered.set_result(reply.body)

    def _refuse(self, correlation_id: int, why: str) -> None:
        self._requests.doubt()
        answered = self._waiting.get(correlation_id)
        if answered is not None and not answered.done():
            answered.set_exception(NoReplyError(why))
