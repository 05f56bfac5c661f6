"""What tests of detached queries share: servers by hand, and what is heard of their queries."""

from __future__ import annotations

from collections.abc import Callable

from fake_watch import FakeWatch
from waiting import eventually

from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import WatchEvent
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.runner import RunnerEvent, TaskOrder
from airflow_provider.spark.runners.detached_queries import DetachedQueries
from airflow_provider.values.model import Epoch, TaskId

MINE, OTHER = ConnectServer(host="mine"), ConnectServer(host="other")
A0 = TaskId("a", 0)
ORDER = TaskOrder(task=A0, entry_point="m:f", epoch=Epoch(1))
STARTED = QueryHandle(server=MINE, session_id="s", query_id="q", run_id="r")
UNKNOWN = QueryHandle(server=MINE, session_id="s")


def masked(text: str) -> str:
    return text.replace("tok3n", "***")


class Bench:
    """:ivar token: the one that servers accept now
    :ivar silence: why new watches find their server silent; empty: they do not
    :ivar unreadable: why the settings of servers can't be read; empty: they can
    """

    def __init__(self, own: ConnectServer | None = MINE) -> None:
        self.token = ""
        self.heard: list[RunnerEvent] = []
        self.watches: dict[ConnectServer, FakeWatch] = {}
        self.away = False
        self.silence = ""
        self.runs: QueryHandle | None = None
        self.unreadable = ""

        async def settings_of(handle: QueryHandle) -> ConnectSettings:
            if self.unreadable:
                raise ConnectionError(self.unreadable)
            return ConnectSettings(server=handle.server, token=self.token)

        def make_watch(settings: ConnectSettings, hear: Callable[[WatchEvent], None]) -> FakeWatch:
            watch = self.watches[settings.server] = FakeWatch(hear)
            watch.away, watch.runs = self.away or settings.token != self.token, self.runs
            watch.silence = self.silence
            return watch

        self.queries = DetachedQueries(
            self.heard.append, own=own, settings_of=settings_of, make_watch=make_watch, mask=masked
        )

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
