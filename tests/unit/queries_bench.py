"""What tests of detached queries share: servers by hand, and what is heard of their queries."""

from __future__ import annotations

from collections.abc import Callable

from waiting import eventually

from airflow_provider.protocol.model import Epoch, TaskId
from airflow_provider.spark.detached import DetachedQueries
from airflow_provider.spark.runner import RunnerEvent, TaskOrder
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.news import QueryNews
from airflow_provider.spark_connect.server import ConnectServer, ConnectSettings

MINE, OTHER = ConnectServer(host="mine"), ConnectServer(host="other")
A0 = TaskId("a", 0)
ORDER = TaskOrder(task=A0, entry_point="m:f", epoch=Epoch(1))
STARTED = QueryHandle(server=MINE, session_id="s", query_id="q", run_id="r")
UNKNOWN = QueryHandle(server=MINE, session_id="s")


class FakeWatch:
    """A server's, by hand (:class:`~airflow_provider.spark.watches.Watch`)."""

    def __init__(self, hear: Callable[[QueryNews], None]) -> None:
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


class Bench:
    """:ivar token: which servers want by now"""

    def __init__(self, own: ConnectServer | None = MINE) -> None:
        self.token = ""
        self.heard: list[RunnerEvent] = []
        self.watches: dict[ConnectServer, FakeWatch] = {}
        self.away = False
        self.runs: QueryHandle | None = None

        async def settings_of(handle: QueryHandle) -> ConnectSettings:
            return ConnectSettings(server=handle.server, token=self.token)

        def make_watch(settings: ConnectSettings, hear: Callable[[QueryNews], None]) -> FakeWatch:
            watch = self.watches[settings.server] = FakeWatch(hear)
            watch.away, watch.runs = self.away or settings.token != self.token, self.runs
            return watch

        self.queries = DetachedQueries(self.heard.append, own=own, settings_of=settings_of, make_watch=make_watch)

    @property
    def mine(self) -> FakeWatch:
        return self.watches[MINE]

    async def says(self, *events: RunnerEvent) -> None:
        await eventually(lambda: len(self.heard) >= len(events))
        assert self.heard == list(events)

    async def watching(self) -> FakeWatch:
        self.queries.watch(ORDER, STARTED.to_json())
        await eventually(lambda: MINE in self.watches and self.mine.watched)
        return self.mine
