"""Queries on a real Spark Connect server are watched, found and stopped by others than their starter."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from waiting import DEADLINE_S, eventually

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.attempts.blame import WriterToBlame, blame_for_query
from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.connect.client import hang_up, open_session, release
from airflow_provider.spark.connect.grpc_calls import calls
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch import polling
from airflow_provider.spark.connect.query_watch.watch_events import (
    QueryEnded,
    QueryLost,
    QueryProgressed,
    QueryStopped,
    ServerBack,
    ServerSilent,
    WatchEvent,
)
from airflow_provider.spark.connect.query_watch.watching import QueryWatch
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from benchmarks.tiny_queries import TinyQueries

_TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
_LOOKS = "spark.connect.session.manager.maintenanceInterval"
N = TypeVar("N")


class Watching:
    """A watcher, a starter of queries, and the watcher's events."""

    def __init__(self, server: LocalConnectServer) -> None:
        self.where = ConnectServer.parse(server.url)
        self.news: list[WatchEvent] = []
        self.queries = TinyQueries(self.where)
        self.watch = QueryWatch(ConnectSettings(server=self.where), "cospark/tests", self.news.append, tell_every_s=1)

    async def __aenter__(self) -> Watching:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for handle in self.watch.watched:
            await self.watch.stop(handle, timeout_s=DEADLINE_S)
        await self.watch.close()
        await self.queries.__aexit__(None, None, None)

    def of(self, kind: type[N]) -> list[N]:
        return [each for each in self.news if isinstance(each, kind)]

    async def hears(self, kind: type[N]) -> N:
        await eventually(lambda: self.of(kind), lambda: f"{kind.__name__} in {self.news}")
        return self.of(kind)[0]

    def anywhere(self) -> QueryHandle:
        """A handle with a session that the server does not know."""
        return QueryHandle(server=self.where, session_id=str(uuid.uuid4()))


@pytest.fixture
async def watching(server: LocalConnectServer) -> AsyncIterator[Watching]:
    async with Watching(server) as watching:
        yield watching


async def test_a_query_that_somebody_else_started_is_found_and_watched(watching: Watching) -> None:
    handle = await watching.queries.start()
    found = await watching.watch.find(QueryHandle(server=handle.server, session_id=handle.session_id))
    assert found == handle
    watching.watch.watch(handle)
    told = await watching.hears(QueryProgressed)
    assert told.handle == handle

    def batches() -> list[QueryProgress]:
        progress = [each.progress for each in watching.of(QueryProgressed)]
        return [each for each in progress if isinstance(each, QueryProgress)]

    await eventually(batches, "besides, it is told to move")
    assert batches()[0].rows is not None
    assert batches()[0].asked_at_ms is not None
    await watching.queries.stop(handle)
    ended = await watching.hears(QueryEnded)
    assert (ended.handle, ended.error) == (handle, None)
    assert ended.last_batch is not None
    assert await watching.watch.find(handle) is None


async def test_a_query_that_fails_tells_why(watching: Watching) -> None:
    handle = await watching.queries.start(only_below=2)
    watching.watch.watch(handle)
    ended = await watching.hears(QueryEnded)
    assert ended.handle == handle
    assert "counted too far" in (ended.error or "")
    await watching.watch.stop(handle, timeout_s=DEADLINE_S)


async def test_another_writer_of_its_checkpoint_is_to_blame_for_the_end_of_a_query(
    watching: Watching, tmp_path: Path
) -> None:
    handle = await watching.queries.start(trigger="200 milliseconds", checkpoint=str(tmp_path))
    watching.watch.watch(handle)
    await eventually((tmp_path / "offsets" / "0").exists)
    for ahead in range(8, 20):  # one that is so many batches ahead
        shutil.copy(tmp_path / "offsets" / "0", tmp_path / "offsets" / str(ahead))
    ended = await watching.hears(QueryEnded)
    assert ended.error is not None
    assert isinstance(blame_for_query(ended.error, nothing_secret), WriterToBlame), ended.error
    told = [each.progress for each in watching.of(QueryProgressed)]
    (*_, last) = (each.batch for each in told if isinstance(each, QueryProgress))
    assert last == ended.last_batch, "its last batch is told before its end"
    await watching.watch.stop(handle, timeout_s=DEADLINE_S)


async def test_nobody_starts_anything_in_a_session_that_was_stopped(watching: Watching) -> None:
    handle, unheard_of = await watching.queries.start(), watching.anywhere()
    watching.watch.watch(handle)
    for each in (handle, unheard_of, handle):
        await watching.watch.stop(each, timeout_s=DEADLINE_S)
    for each in (handle, unheard_of):
        with pytest.raises(grpc.RpcError, match="SESSION_CLOSED"):
            await watching.queries.start(session_id=each.session_id)
        assert await watching.watch.find(each) is None
    assert not watching.of(QueryEnded)


async def test_a_query_whose_session_somebody_else_closes_is_lost(
    watching: Watching, server: LocalConnectServer
) -> None:
    handle = await watching.queries.start()
    watching.watch.watch(handle)
    await asyncio.to_thread(close_session, server, handle)
    assert "has closed its session" in (await watching.hears(QueryLost)).why


def close_session(server: LocalConnectServer, handle: QueryHandle) -> None:
    """Without stopping its query first, which could be heard of before."""
    session = open_session(ConnectSettings(server=ConnectServer.parse(server.url)), "cospark/other", handle.session_id)
    release(session, DEADLINE_S)
    hang_up(session)


async def test_a_query_counts_as_stopped_even_if_the_stopper_dies_before_it_closes_the_session(
    watching: Watching, server: LocalConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    async def killed(*_arguments: object) -> None:
        raise KilledError

    handle = await watching.queries.start()
    async with Watching(server) as other:
        with monkeypatch.context() as patched:
            patched.setattr(calls.ServerCalls, "release", killed)
            with pytest.raises(KilledError):
                await other.watch.stop(handle, timeout_s=DEADLINE_S)
    watching.watch.watch(handle)
    assert await watching.hears(QueryStopped) == QueryStopped(handle)


async def test_looking_for_a_session_does_not_make_it(watching: Watching) -> None:
    unheard_of = watching.anywhere()
    for _ in range(2):
        assert await watching.watch.find(unheard_of) is None
    handle = QueryHandle(
        server=watching.where, session_id=unheard_of.session_id, query_id=str(uuid.uuid4()), run_id=str(uuid.uuid4())
    )
    watching.watch.watch(handle)
    assert "does not know its session" in (await watching.hears(QueryLost)).why


async def test_a_paused_server_is_reported_and_its_queries_stay_watched(
    watching: Watching, server: LocalConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "ANSWER_S", 5.0)
    handle = await watching.queries.start()
    watching.watch.watch(handle)
    await watching.hears(QueryProgressed)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await watching.hears(ServerSilent)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await watching.hears(ServerBack)
    told = len(watching.of(QueryProgressed))
    await eventually(lambda: len(watching.of(QueryProgressed)) > told)
    assert watching.watch.watched == {handle}


@pytest.mark.thorough  # restarts a server
async def test_the_queries_of_a_killed_server_are_lost(server: LocalConnectServer) -> None:
    async with Watching(server) as watching:
        handle = await watching.queries.start()
        watching.watch.watch(handle)
        await watching.hears(QueryProgressed)
        server.kill()
        await watching.hears(ServerSilent)
        server.start()
        lost = await watching.hears(QueryLost)
        assert (lost.handle, "does not know its session" in lost.why) == (handle, True)
        assert len(watching.of(ServerSilent)) == len(watching.of(ServerBack)) == 1


@pytest.mark.thorough  # waits for a server of its own
async def test_a_query_runs_as_long_as_somebody_watches_it_and_then_its_session_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A running query alone does not keep its session open."""
    monkeypatch.setattr(polling, "_LEAST_OFTEN", 1.0)  # a slow server is asked less often, and the timeout is short
    with LocalConnectServer(conf={_TIMEOUT: "12s", _LOOKS: "2s"}, start_timeout_s=DEADLINE_S) as server:
        async with Watching(server) as watching:
            watched, alone = await watching.queries.start(), await watching.queries.start()
            watching.watch.watch(watched)
            await eventually(lambda: len(watching.of(QueryProgressed)) >= 6)
            watching.watch.watch(alone)
            lost = await watching.hears(QueryLost)
            assert lost.handle == alone
            assert watching.watch.watched == {watched}
