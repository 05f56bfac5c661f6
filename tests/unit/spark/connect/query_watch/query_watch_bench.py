"""What tests of watched queries share: a server, watches, and the events that they have reported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from fake_connect import FakeConnect
from waiting import eventually

from airflow_provider.spark.connect.grpc_calls import calls
from airflow_provider.spark.connect.query_watch import polling, silence
from airflow_provider.spark.connect.query_watch.shared_server import SERVERS
from airflow_provider.spark.connect.query_watch.watch_events import WatchEvent
from airflow_provider.spark.connect.query_watch.watching import QueryWatch

POLL_EVERY_S = 0.05
N = TypeVar("N")


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeConnect]:
    """A server that is polled much more often than usual. No test depends on how often."""
    monkeypatch.setattr(polling, "POLL_EVERY_S", POLL_EVERY_S)
    monkeypatch.setattr(silence, "SILENT_S", 0.2)
    monkeypatch.setattr(silence, "_FIRST_WAIT_S", 0.05)
    monkeypatch.setattr(silence, "_LONGEST_WAIT_S", 0.2)
    fake = FakeConnect()
    await fake.start()
    yield fake
    await fake.stop()
    assert not SERVERS._open, "all connections are given back"


class Hearing:
    """A watch, and the events that it has reported."""

    def __init__(self, server: FakeConnect, *, tell_every_s: float = POLL_EVERY_S, token: str = "") -> None:
        self.news: list[WatchEvent] = []
        settings = server.settings(host="localhost" if token else "127.0.0.1", token=token)
        self.watch = QueryWatch(settings, "cospark/tests", self.news.append, tell_every_s=tell_every_s)

    async def __aenter__(self) -> Hearing:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.watch.close()

    def of(self, kind: type[N]) -> list[N]:
        return [each for each in self.news if isinstance(each, kind)]

    async def hears(self, kind: type[N], count: int = 1) -> list[N]:
        """Wait for this many events of a kind."""
        await eventually(lambda: len(self.of(kind)) >= count, lambda: f"{count} of {kind.__name__} in {self.news}")
        return self.of(kind)


async def looked(server: FakeConnect, times: int = 3) -> None:
    """Wait until the queries were polled this often from now on."""
    before = server.asked["status"]
    await eventually(lambda: server.asked["status"] >= before + times)


@contextmanager
def short_answers() -> Iterator[None]:
    """What is asked meanwhile is to be answered soon. A busy machine may not: so only ask who does not speak."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "ANSWER_S", 0.3)
        yield
