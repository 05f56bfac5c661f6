"""A connection's settings, for all triggers of a triggerer that use it.

Airflow answers a triggerer's questions one by one, each with a look into its database and, if it is the first, after
seconds of preparation; new triggers and events wait meanwhile. A triggerer that starts has hundreds of triggers that
all want to know the same. So those who ask at the same time share an answer.

A trigger may live for weeks, longer than a password. So one of all that use a connection looks at it again and again.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_AGAIN_S: Final = 30.0

_Asked = dict[str, "asyncio.Future[KafkaSettings]"]

_ASKED: WeakKeyDictionary[asyncio.AbstractEventLoop, _Asked] = WeakKeyDictionary()


async def settings_of(kafka_conn_id: str) -> KafkaSettings:
    """The connection's settings as Airflow has them now; who asks while another waits for the answer shares that.

    :raises SettingsError: if the connection can't be used
    """
    asked = _ASKED.setdefault(asyncio.get_running_loop(), {})
    answer = asked.get(kafka_conn_id)
    if answer is None:
        answer = asked[kafka_conn_id] = asyncio.ensure_future(SparkGroupHook(kafka_conn_id).aget_settings())

        def forget(answer: asyncio.Future[KafkaSettings]) -> None:
            del asked[kafka_conn_id]
            _ = answer.cancelled() or answer.exception()  # seen, also if nobody waits for it any more

        answer.add_done_callback(forget)
    # Shielded: a trigger that is cancelled meanwhile must not take the answer from the others.
    return await asyncio.shield(answer)


class Connection:
    """A connection that is looked at again and again.

    :ivar settings: the last ones with which a broker could be reached
    """

    def __init__(self, conn_id: str, settings: KafkaSettings) -> None:
        self.settings = settings
        self.users = 0
        self._conn_id = conn_id
        self._changed = asyncio.Event()
        self._acts: dict[Callable[[], None], None] = {}
        self._complaint = ""
        self._refused: KafkaSettings | None = None
        self._taking = asyncio.Lock()
        self._looking = asyncio.ensure_future(self._look_again_and_again())

    async def other_than(self, settings: KafkaSettings) -> KafkaSettings:
        """Its settings, as soon as they are others than these."""
        while self.settings == settings:
            await self._changed.wait()
        return self.settings

    def when_other_than(self, settings: KafkaSettings, act: Callable[[], None]) -> Callable[[], object]:
        """Have ``act`` called soon, if its settings are others than these; else as soon as they change.

        :returns: a function that ends it
        """
        self._acts[act] = None
        if self.settings != settings:
            asyncio.get_running_loop().call_soon(act)
        return lambda: self._acts.pop(act, None)

    def close(self) -> None:
        self._looking.cancel()

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            try:
                settings = await settings_of(self._conn_id)
            except Exception as problem:  # noqa: BLE001  Airflow's: what works by now, goes on
                self._complain(problem)
            else:
                self._refused = None
                await self.go_on_with(settings)

    async def go_on_with(self, settings: KafkaSettings) -> None:
        """Take what the connection says now, if a broker does; all who come with the same at a time ask it once."""
        async with self._taking:
            if settings == self.settings:
                self._complaint = ""
            elif settings != self._refused:
                try:
                    await _reach(settings)
                except Exception as problem:  # noqa: BLE001  the broker's: what works by now, goes on
                    self._refused = settings
                    self._complain(problem)
                else:
                    self._take(settings)

    def _complain(self, problem: Exception) -> None:
        if str(problem) != self._complaint:
            self._complaint = str(problem)
            log.warning(
                "What connection %r says now can't be used, so its triggers go on with what it said: %s",
                self._conn_id,
                problem,
            )

    def _take(self, settings: KafkaSettings) -> None:
        self._complaint = ""
        log.info("Connection %r has changed: its triggers go on with what it says now", self._conn_id)
        self.settings = settings
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for act in list(self._acts):
            act()


async def _reach(settings: KafkaSettings) -> None:
    """:raises TransportError: if no broker takes these"""
    # Not at the top, because a DAG file imports this module; in a thread, because Kafka's clients take their time.
    shared = await asyncio.to_thread(importlib.import_module, "airflow_provider.group.shared")
    await shared.reach(settings)


_CONNECTIONS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Connection]] = WeakKeyDictionary()


@asynccontextmanager
async def connection_of(kafka_conn_id: str) -> AsyncIterator[Connection]:
    """The connection, for one trigger more of those that use it on this loop.

    :raises SettingsError: if it can't be used
    """
    settings = await settings_of(kafka_conn_id)
    connections = _CONNECTIONS.setdefault(asyncio.get_running_loop(), {})
    connection = connections.get(kafka_conn_id)
    if connection is None:
        connection = connections[kafka_conn_id] = Connection(kafka_conn_id, settings)
    connection.users += 1
    try:
        await connection.go_on_with(settings)
        yield connection
    finally:
        connection.users -= 1
        if not connection.users:
            del connections[kafka_conn_id]
            connection.close()


async def with_its_settings(connection: Connection, work: Callable[[KafkaSettings], Awaitable[T]]) -> T:
    """What ``work`` gives; it is cancelled, and begins anew, when the settings change."""
    while True:
        settings = connection.settings
        working = asyncio.ensure_future(work(settings))
        changed = asyncio.ensure_future(connection.other_than(settings))
        try:
            await asyncio.wait((working, changed), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
        finally:
            working.cancel()
            changed.cancel()
            await asyncio.gather(working, changed, return_exceptions=True)
