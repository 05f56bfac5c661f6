"""A server on which queries run that go on by themselves, as those see it who watch them."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.watch_events import WatchEvent


class FakeWatch:
    """A server's, by hand (:class:`~airflow_provider.runners.detached.Watch`)."""

    def __init__(self, hear: Callable[[WatchEvent], None]) -> None:
        self.hear = hear
        self.watched: set[QueryHandle] = set()
        self.stopped: list[QueryHandle] = []
        self.runs: QueryHandle | None = None
        self.away = False
        self.closed = False

    def watch(self, handle: QueryHandle) -> None:
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
