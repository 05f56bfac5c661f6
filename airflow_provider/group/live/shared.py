"""Shares one transport per cluster, and one set of topic views per group, among all users on one event loop.

A triggerer holds a thousand memberships and sensors in one process: they share connections, consumers and views.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from airflow_provider.group.declarative.requests.request_channel import KafkaChannel
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicTimeoutError
from airflow_provider.kafka.topics.rights import WATCHER, Needs
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.reports.standing import Pace

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
Make: TypeAlias = Callable[[], Awaitable[T]]

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0


async def _as_it_is(_thing: object) -> None: ...


@dataclass(slots=True)
class _Held(Generic[T]):
    """Something that is open, or being opened, and the number of its users."""

    opening: asyncio.Future[T]
    users: int = 0


class _Pool(Generic[T]):
    """Opens a resource for its first user, and closes it after its last one."""

    def __init__(self, close: Callable[[T], Awaitable[None]]) -> None:
        self._close = close
        self._held: dict[object, _Held[T]] = {}

    def use(self, key: object, make: Make[T], get_ready: Callable[[T], Awaitable[None]] = _as_it_is) -> _Use[T]:
        """:param get_ready: what this user needs to be done before the block begins"""
        return _Use(self, key, make, get_ready)

    def take(self, key: object, make: Make[T]) -> _Held[T]:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(asyncio.ensure_future(make()))
        held.users += 1
        return held

    async def give_back(self, key: object, held: _Held[T]) -> None:
        held.users -= 1
        if held.users == 0:
            await self._drop(key, held)

    async def _drop(self, key: object, held: _Held[T]) -> None:
        if self._held.get(key) is held:
            del self._held[key]
        held.opening.cancel()
        await asyncio.wait([held.opening])
        if not held.opening.cancelled() and held.opening.exception() is None:
            await self._close(held.opening.result())


class _Use(Generic[T]):
    """One more use of a pool's resource, while the block runs. A class, since a generator would take 900 bytes for each
    of thousands.
    """

    __slots__ = ("_get_ready", "_held", "_key", "_make", "_pool")

    def __init__(self, pool: _Pool[T], key: object, make: Make[T], get_ready: Callable[[T], Awaitable[None]]) -> None:
        self._pool = pool
        self._key = key
        self._make = make
        self._get_ready = get_ready

    async def __aenter__(self) -> T:
        self._held = self._pool.take(self._key, self._make)
        try:
            # Shielded, so that a user that gives up does not end the opening for the others.
            thing = await asyncio.shield(self._held.opening)
            await self._get_ready(thing)
        except BaseException:
            await self._pool.give_back(self._key, self._held)
            raise
        return thing

    async def __aexit__(self, *_: object) -> None:
        await self._pool.give_back(self._key, self._held)


class _Pools:
    """What one event loop shares."""

    def __init__(self) -> None:
        self.transports: _Pool[GroupTransport] = _Pool(lambda transport: transport.aclose())
        self.topics: _Pool[GroupTopics] = _Pool(lambda topics: topics.aclose())
        self.channels: _Pool[KafkaChannel] = _Pool(lambda channel: channel.aclose())


# A loop belongs to one process. A forked one has another loop, so nothing is shared with the parent.
_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pools] = WeakKeyDictionary()


def _pools() -> _Pools:
    return _POOLS.setdefault(asyncio.get_running_loop(), _Pools())


def shared_transport(settings: KafkaSettings) -> AbstractAsyncContextManager[GroupTransport]:
    """The transport to a cluster, open while anybody on this loop uses it."""

    async def make() -> GroupTransport:
        return GroupTransport(settings)

    return _pools().transports.use(settings, make)


def shared_channel(settings: KafkaSettings) -> AbstractAsyncContextManager[KafkaChannel]:
    """The channel to the coordinators of a cluster's declarative groups, open while anybody on this loop uses it.

    :raises TopicError: see :meth:`KafkaChannel.open`
    """

    async def make() -> KafkaChannel:
        channel = KafkaChannel(settings)
        try:
            await channel.open()
        except BaseException:
            await channel.aclose()
            raise
        return channel

    return _pools().channels.use(settings, make)


def shared_topics(settings: KafkaSettings, group_id: str, needs: Needs) -> AbstractAsyncContextManager[GroupTopics]:
    """The topics of a group, read to their present ends.

    :param needs: the rights that the user needs
    :raises TopicError: see :meth:`GroupTopics.start`
    """

    async def get_ready(topics: GroupTopics) -> None:
        await topics.start_for(needs)
        await topics.catch_up()

    return _topics_of(settings, group_id, get_ready)


def watched_topics(
    settings: KafkaSettings, group_id: str, needs: Needs = WATCHER, *, timeout_s: float | None = None
) -> AbstractAsyncContextManager[GroupTopics]:
    """As :func:`shared_topics`, but wait until others have created the topics.

    While they don't exist, the log says so every 10 minutes, as the group's name may be mistyped.

    :param needs: the rights that the user needs
    :param timeout_s: how long to wait for them, in seconds; None: without limit
    :raises TopicTimeoutError: if nobody has created them in time
    :raises TopicError: see :meth:`GroupTopics.start`
    """
    until = math.inf if timeout_s is None else time.monotonic() + timeout_s

    async def get_ready(topics: GroupTopics) -> None:
        pause_s, pace = _FIRST_PAUSE_S, Pace()
        while True:
            try:
                await topics.start_for(needs)
                await topics.catch_up()
                return
            except NoTopicError as missing:
                if time.monotonic() >= until:
                    raise TopicTimeoutError(f"after {timeout_s:g} s: {missing}") from missing
                if pace.is_due(str(missing), time.monotonic()):
                    log.info("Waiting for the group's topics: %s", missing)
            await asyncio.sleep(min(pause_s, until - time.monotonic()))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    return _topics_of(settings, group_id, get_ready)


def _topics_of(
    settings: KafkaSettings, group_id: str, get_ready: Callable[[GroupTopics], Awaitable[None]]
) -> AbstractAsyncContextManager[GroupTopics]:
    async def make() -> GroupTopics:
        return GroupTopics(settings, group_id)

    return _pools().topics.use((settings, group_id), make, get_ready)


async def reach(settings: KafkaSettings) -> None:
    """Check that a broker answers. Kafka's other client (librdkafka) would retry for long before it says that none
    does.

    :raises TransportError: if none answers, or it refuses our credentials
    """
    async with shared_transport(settings) as transport:
        await transport.find_coordinator("cospark")
