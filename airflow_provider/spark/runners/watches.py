"""The watches of one worker: one for each server or cluster on which queries or drivers of its tasks run."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import QueryEvent, ServerBack, ServerSilent, WatchEvent
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.job.checkpoint_folder import checkpoint_location
from airflow_provider.spark.runners.driver_watch import DriverEnded, DriverWatch
from airflow_provider.spark.submit.clusters import ClusterHere
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.state.records import is_driver
from airflow_provider.values.model import TaskId

log = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 30.0
"""How often the settings are read again while a server is silent: the token may have changed."""


Handle: TypeAlias = QueryHandle | DriverHandle


def handle_of(data: Any) -> Handle:
    """The handle that a record has.

    :raises ValueError: if it has none
    """
    return DriverHandle.from_json(data) if is_driver(data) else QueryHandle.from_json(data)


def handle_for(task: TaskId, group_id: str, data: Any) -> Handle:
    """The handle that the record of this task has.

    :raises ValueError: if it has none, or that of a driver that was submitted for another task or group
    """
    handle = handle_of(data)
    if isinstance(handle, DriverHandle):
        handle.check_owner(checkpoint_location("", group_id, task, {}))
    return handle


class Watch(Protocol):
    """The watch of one server (:class:`~airflow_provider.spark.connect.query_watch.watching.QueryWatch`), or of one
    cluster (:class:`~airflow_provider.spark.runners.driver_watch.DriverWatch`), with handles of its kind.
    """

    @property
    def watched(self) -> Set[Any]: ...

    def watch(self, handle: Any) -> None: ...

    def let_go(self, handle: Any) -> None: ...

    async def stop(self, handle: Any, *, timeout_s: float) -> None: ...

    async def find(self, handle: Any) -> Any: ...

    async def close(self) -> None: ...


MakeWatch = Callable[[ConnectSettings, Callable[[WatchEvent], None]], Watch]
"""Makes the watch of a server, given the callback for its events."""
SettingsOf = Callable[[QueryHandle], Awaitable[ConnectSettings]]
"""How to use the server of a handle. The message of an exception says, without secrets, why it can't be used."""


@dataclass(slots=True)
class _Open:
    """:ivar settings: None: a cluster has none
    :ivar looked_at: when they were read last (the loop's clock)
    """

    settings: ConnectSettings | None
    watch: Watch
    looked_at: float


class Watches:
    """All watches of a worker, by server or cluster. Belongs to one event loop.

    :param cluster_of: gives the clusters that this process knows
    :param hear: called with the events of queries and drivers
    :param on_silence: called when :attr:`silent` has changed
    :param mask: removes secrets from error messages
    :ivar lacks: why this process can't watch something; another one may. Usually empty
    """

    def __init__(
        self,
        settings_of: SettingsOf,
        make_watch: MakeWatch,
        cluster_of: ClusterHere,
        hear: Callable[[QueryEvent | DriverEnded], None],
        on_silence: Callable[[], None],
        mask: Mask = nothing_secret,
    ) -> None:
        self._settings_of = settings_of
        self._make_watch = make_watch
        self._cluster_of = cluster_of
        self._hear = hear
        self._on_silence = on_silence
        self._mask = mask
        self.lacks = ""
        self._open: dict[ConnectServer | str, _Open] = {}
        self._opening = asyncio.Lock()
        self._silent: dict[ConnectServer | str, asyncio.Task[None]] = {}

    @property
    def silent(self) -> bool:
        """Whether something is watched on a server that does not answer."""
        return bool(self._silent)

    async def of(self, handle: Handle) -> Watch:
        """:raises Exception: if its server can't be used; the message says why"""
        async with self._opening:  # one channel for each server
            known = self._open.get(handle.server)
            if known is None:
                known = self._make(handle.server, await self._settings(handle))
            return known.watch

    async def look_again(self, handle: Handle) -> None:
        """Read the settings of its server again, and reconnect if they have changed.

        :raises Exception: if the server can't be used; the message says why
        """
        async with self._opening:
            known = self._open.get(handle.server)
            if known is None or _now() < known.looked_at + LOOK_AGAIN_S:
                return
            known.looked_at = _now()
            settings = await self._settings(handle)
            if settings == known.settings:
                return
            log.info("The connection of Spark Connect server %s has changed: using its new settings", handle.server)
            other = self._make(handle.server, settings)
            self._hears_again(handle.server)  # first: the new watch may already know that the server is silent
            for each in known.watch.watched:
                other.watch.watch(each)
            await known.watch.close()  # last: if this is cancelled, the new watch already has all queries

    def let_go(self, handle: Handle) -> None:
        known = self._open.get(handle.server)
        if known is not None:
            known.watch.let_go(handle)
            if not known.watch.watched:
                self._hears_again(handle.server)

    async def close(self) -> None:
        looking = list(self._silent.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        self._silent.clear()
        for known in self._open.values():
            await known.watch.close()
        self._open.clear()

    async def _settings(self, handle: Handle) -> ConnectSettings | None:
        return None if isinstance(handle, DriverHandle) else await self._settings_of(handle)

    def _make(self, server: ConnectServer | str, settings: ConnectSettings | None) -> _Open:
        hear = functools.partial(self._on_event, server)
        watch: Watch
        if settings is None:
            watch = DriverWatch(functools.partial(self._cluster_of, str(server)), hear)
        else:
            watch = self._make_watch(settings, hear)
        known = self._open[server] = _Open(settings, watch, _now())
        return known

    def _on_event(self, server: ConnectServer | str, event: WatchEvent | DriverEnded) -> None:
        if isinstance(event, ServerBack):
            self._hears_again(server)
        elif not isinstance(event, ServerSilent):
            self._hear(event)
        elif server not in self._silent:
            if event.lacks:
                self.lacks = self._mask(event.why)
            self._silent[server] = asyncio.ensure_future(self._look_again_and_again(server))
            self._on_silence()

    def _hears_again(self, server: ConnectServer | str) -> None:
        looking = self._silent.pop(server, None)
        if looking is not None:
            if looking is not asyncio.current_task():
                looking.cancel()
            self._on_silence()

    async def _look_again_and_again(self, server: ConnectServer | str) -> None:
        while self._silent.get(server) is asyncio.current_task():
            await asyncio.sleep(LOOK_AGAIN_S)
            for handle in list(self._open[server].watch.watched)[:1]:
                try:
                    await self.look_again(handle)
                except Exception as failed:  # noqa: BLE001 - Airflow's: the old settings are used
                    log.warning("Could not read the settings of %s again: %s", server, self._mask(str(failed)))


def _now() -> float:
    return asyncio.get_running_loop().time()
