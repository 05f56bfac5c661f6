"""Watches drivers on a cluster from an event loop, without blocking it, and kills them."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from airflow_provider.spark.connect.query_watch.silence import SILENT_S, Silence
from airflow_provider.spark.connect.query_watch.watch_events import ServerBack, ServerSilent
from airflow_provider.spark.submit.detached import (
    KILL_PAUSE_S,
    LOOK_S,
    Cluster,
    ClusterSilentError,
    Driver,
    DriverError,
    DriverState,
    Killing,
    News,
    how_it_ended,
    newest,
    said_last,
)
from airflow_provider.spark.submit.driver_handle import DriverHandle

log = logging.getLogger(__name__)

_MOST_THREADS: Final = 8
"""All watches of a process ask in these: a triggerer may hold thousands of workers, and a cluster may not answer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DriverEnded:
    """The driver has ended, and is no longer watched.

    :param error: why it has not succeeded; empty: it has
    """

    handle: DriverHandle
    error: str


class DriverWatch:
    """The drivers that one membership watches on a cluster (a :class:`~airflow_provider.spark.runners.watches.Watch`).
    Belongs to one event loop.

    :param cluster: gives the cluster; called in a thread before it is asked, as its configuration may change, and
        as this may take long
    :param hear: called with each event, in the event loop
    """

    def __init__(
        self, cluster: Callable[[], Cluster], hear: Callable[[DriverEnded | ServerSilent | ServerBack], None]
    ) -> None:
        self._cluster = cluster
        self._hear = hear
        self._watched: dict[DriverHandle, News] = {}
        self._silence = Silence()
        self._polling: asyncio.Task[None] | None = None

    @property
    def watched(self) -> frozenset[DriverHandle]:
        return frozenset(self._watched)

    def watch(self, handle: DriverHandle) -> None:
        """Report the end of this driver, and also a silence of the cluster that was known before, when nothing was
        watched.
        """
        if not self._watched:
            self._silence = Silence()
        self._watched.setdefault(handle, News())
        if self._polling is None or self._polling.done():
            self._polling = asyncio.ensure_future(self._poll())

    def let_go(self, handle: DriverHandle) -> None:
        """Stop watching it. It goes on."""
        self._watched.pop(handle, None)

    async def stop(self, handle: DriverHandle, *, timeout_s: float) -> None:
        """Kill all drivers of the same work that run, and wait until they have ended: who has the work next would adopt
        them.

        :raises DriverError: if they have not ended in time
        :raises Exception: if the cluster does not answer
        """
        self.let_go(handle)
        until, killing = _now() + timeout_s, Killing(handle.tag)
        while not await ask_in_thread(lambda: killing.is_over(self._cluster())):
            if _now() > until:
                raise DriverError(f"it was told to end, and has not: {', '.join(killing.running)}")
            await asyncio.sleep(KILL_PAUSE_S)

    async def find(self, handle: DriverHandle) -> DriverHandle:
        return handle

    async def close(self) -> None:
        """Stop watching. All drivers go on."""
        self._watched.clear()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def _poll(self) -> None:
        """Ask for all in one thread, one after the other, however many there are."""
        while self._watched:
            asked_at, asked = _now(), dict(self._watched)
            try:
                found = await ask_in_thread(functools.partial(self._look, asked))
            except Exception as failed:  # noqa: BLE001 - whatever a cluster raises, it is no answer
                if not self._watched:  # nothing would tell that the cluster is back
                    return
                lacks = not isinstance(failed, ClusterSilentError)
                asked_at -= SILENT_S * lacks  # this will not pass by itself, so others are told at once
                if self._silence.failed(str(failed), asked_at=asked_at, now=_now()):
                    log.warning("%s; it is asked again and again, and what it runs goes on", failed)
                    self._hear(ServerSilent(str(failed), lacks))
                await asyncio.sleep(self._silence.wait_s())
                continue
            if self._silence.answered():
                self._hear(ServerBack())
            for handle, driver in found.items():
                if self._watched.get(handle) is asked[handle]:  # otherwise another attempt has begun since
                    self._saw(handle, driver, asked[handle])
            await asyncio.sleep(LOOK_S)

    def _look(self, handles: Iterable[DriverHandle]) -> dict[DriverHandle, Driver | None]:
        cluster = self._cluster()
        return {handle: newest(cluster.find(handle.tag)) for handle in handles}

    def _saw(self, handle: DriverHandle, driver: Driver | None, news: News) -> None:
        if driver is not None and driver.state is DriverState.RUNS:
            news.tell(driver)
            return
        self.let_go(handle)
        if driver is None:
            why = f"the cluster does not know a driver with the tag {handle.tag} any more{said_last(news.why)}"
            self._hear(DriverEnded(handle, why))
        else:
            self._hear(DriverEnded(handle, "" if driver.state is DriverState.SUCCEEDED else how_it_ended(driver)))


async def ask_in_thread(ask: Callable[[], T]) -> T:
    """Ask a cluster in one of the threads that all watches of this process share."""
    return await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), ask)


@functools.cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    """:param _pid: of this process: a forked one has none of the threads"""
    return ThreadPoolExecutor(_MOST_THREADS, "cospark-drivers")


def _now() -> float:
    return asyncio.get_running_loop().time()
