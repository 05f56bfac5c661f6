"""A server with detached queries, as its watchers see it."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import ServerSilent, WatchEvent


class FakeWatch:
    """The watch of a server whose answers a test chooses (a :class:`~airflow_provider.spark.runners.watches.Watch`).

    :ivar runs: the query that :meth:`find` finds
    :ivar away: whether calls fail
    :ivar silence: why the server is known to be silent when something is watched; empty: it is not
    """

    def __init__(self, hear: Callable[[WatchEvent], None]) -> None:
        self.hear = hear
        self.watched: set[QueryHandle] = set()
        self.stopped: list[QueryHandle] = []
        self.runs: QueryHandle | None = None
        self.away = False
        self.silence = ""
        self.closed = False

    def watch(self, handle: QueryHandle) -> None:
        if self.silence:
            self.hear(ServerSilent(self.silence))
        self.watched.add(handle)

    def let_go(self, handle: QueryHandle) -> None:
        self.watched.discard(handle)

    async def stop(self, handle: QueryHandle, *, timeout_s: float) -> None:
        self.let_go(handle)
        if self.away:
            raise ConnectionError("nobody answers")
        self.stopped.append(handle)

    async def find(self, handle: QueryHandle) -> QueryHandle | None:
        if self.away:
            raise ConnectionError("nobody answers")
        return self.runs

    async def close(self) -> None:
        self.closed = True
