"""A connection's settings, for all triggers of a triggerer that use it.

A trigger may live for weeks, longer than a password. So the connection is read regularly, once for all its triggers.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.triggers.shared_answers import SharedAnswers

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_AGAIN_S: Final = 30.0
_UNUSABLE_AGAIN_S: Final = 30.0

_SETTINGS: Final = SharedAnswers[KafkaSettings](lambda conn_id: SparkGroupHook(conn_id).aget_settings())


async def settings_of(kafka_conn_id: str) -> KafkaSettings:
    """The connection's settings as Airflow has them now.

    :raises SettingsError: if the connection can't be used
    """
    return await _SETTINGS.about(kafka_conn_id)


async def _usable_settings_of(kafka_conn_id: str) -> KafkaSettings:
    """As :func:`settings_of`, but wait until the connection can be used.

    Tasks that wait in a triggerer have used it before. And Airflow restarts a watcher that fails at once, for ever.
    """
    told = ""
    while True:
        try:
            return await settings_of(kafka_conn_id)
        except Exception as problem:  # noqa: BLE001  Airflow's, or its settings are refused
            if str(problem) != told:
                told = str(problem)
                log.warning("Waiting until connection %r can be used: %s", kafka_conn_id, problem)
        await asyncio.sleep(_UNUSABLE_AGAIN_S)


class Connection:
    """A connection that is read regularly.

    :ivar settings: the last ones with which a broker could be reached
    """

    def __init__(self, conn_id: str, settings: KafkaSettings) -> None:
        self.settings = settings
        self.users = 0
        self._conn_id = conn_id
        self._changed = asyncio.Event()
        self._acts: dict[Callable[[], None], contextvars.Context] = {}
        self._complaint = ""
        self._refused: KafkaSettings | None = None
        self._taking = asyncio.Lock()
        self._looking = asyncio.ensure_future(self._look_again_and_again())

    async def other_than(self, settings: KafkaSettings) -> KafkaSettings:
        """Wait until its settings differ from these, and return them."""
        while self.settings == settings:
            await self._changed.wait()
        return self.settings

    def when_other_than(self, settings: KafkaSettings, act: Callable[[], None]) -> Callable[[], object]:
        """Call ``act`` when its settings differ from these: soon, if they do already.

        :returns: a function that cancels this
        """
        self._acts[act] = contextvars.copy_context()
        if self.settings != settings:
            self._call_soon(act)
        return lambda: self._acts.pop(act, None)

    def _call_soon(self, act: Callable[[], None]) -> None:
        """One call for each, so that an exception affects neither the others nor who looks for all."""

        def call() -> None:
            if act in self._acts:  # otherwise it was cancelled in this turn of the loop
                act()

        asyncio.get_running_loop().call_soon(call, context=self._acts[act])

    def close(self) -> None:
        self._looking.cancel()

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            try:
                settings = await settings_of(self._conn_id)
            except Exception as problem:  # noqa: BLE001  Airflow's: the present settings stay in use
                self._complain(problem)
            else:
                self._refused = None
                await self.go_on_with(settings)

    async def go_on_with(self, settings: KafkaSettings) -> None:
        """Use these settings if a broker accepts them. Concurrent calls with the same settings ask the broker once."""
        async with self._taking:
            if settings == self.settings:
                self._complaint = ""
            elif settings != self._refused:
                try:
                    await _reach(settings)
                except Exception as problem:  # noqa: BLE001  the broker's: the present settings stay in use
                    self._refused = settings
                    self._complain(problem)
                else:
                    self._take(settings)

    def _complain(self, problem: Exception) -> None:
        if str(problem) != self._complaint:
            self._complaint = str(problem)
            log.warning(
                "The new settings of connection %r can't be used, so its triggers keep using the old ones: %s",
                self._conn_id,
                problem,
            )

    def _take(self, settings: KafkaSettings) -> None:
        self._complaint = ""
        log.info("Connection %r has changed: its triggers use the new settings", self._conn_id)
        self.settings = settings
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for act in self._acts:
            self._call_soon(act)


async def _reach(settings: KafkaSettings) -> None:
    """:raises TransportError: if no broker accepts these"""
    # Not at the top, because a DAG file imports this module; in a thread, because Kafka's clients take their time.
    shared = await asyncio.to_thread(importlib.import_module, "airflow_provider.group.live.shared")
    await shared.reach(settings)


_CONNECTIONS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Connection]] = WeakKeyDictionary()


@asynccontextmanager
async def connection_of(kafka_conn_id: str) -> AsyncIterator[Connection]:
    """The connection, shared by all triggers that use it on this loop. Waits until it can be used."""
    settings = await _usable_settings_of(kafka_conn_id)
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
    """The result of ``work``, which is cancelled and started again when the settings change."""
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
