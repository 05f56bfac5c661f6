"""What is told of queries that are watched on a Spark Connect server."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar

import grpc
import pytest
from fake_connect import FakeConnect, FakeQuery
from query_watch_bench import POLL_EVERY_S, Hearing, looked
from query_watch_bench import server as server
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect.query_watch import polling
from airflow_provider.spark.connect.query_watch.watch_events import (
    QueryEnded,
    QueryLost,
    QueryProgressed,
    ServerBack,
    ServerSilent,
)
from airflow_provider.spark.connect.query_watch.watching import QueryWatch
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.values.lag import Lag


def progress(batch: int) -> QueryProgress:
    """What a fake query says of this batch; its two sources do not say how much there is to read."""
    return QueryProgress(batch=batch, rows_per_second=1.5, rows=5, lag=Lag(silent=2))


async def test_only_new_progress_is_reported(server: FakeConnect) -> None:
    query = FakeQuery()
    handle = server.handle(query)
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        assert hearing.news == []
        query.batch = 7
        (told,) = await hearing.hears(QueryProgressed)
        assert told == QueryProgressed(handle, progress(7))
        await looked(server)
        assert len(hearing.news) == 1
        query.batch = 8
        told = (await hearing.hears(QueryProgressed, 2))[1]
        assert told == QueryProgressed(handle, progress(8))


async def test_that_a_query_is_between_two_batches_is_reported_again_and_again(server: FakeConnect) -> None:
    """Its stream is not stalled then, whatever there is to read."""
    query = FakeQuery()
    handle = server.handle(query)
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        assert hearing.news == [], "it is in its first batch"
        query.in_batch = False
        assert set(await hearing.hears(QueryProgressed, 2)) == {QueryProgressed(handle, QueryMoves())}


async def test_each_listener_is_called_in_its_own_context(server: FakeConnect) -> None:
    trigger: ContextVar[str] = ContextVar("trigger")
    heard: set[tuple[str, str]] = set()

    async def watching(name: str) -> None:
        trigger.set(name)
        handle = server.handle(FakeQuery(batch=1))
        settings = server.settings(host="127.0.0.1", token="")
        watch = QueryWatch(
            settings, name, lambda _news: heard.add((name, trigger.get("nobody's"))), tell_every_s=POLL_EVERY_S
        )
        watch.watch(handle)
        await eventually(lambda: len(heard) == 2, "both hear")
        await watch.close()

    await asyncio.gather(watching("first"), watching("second"))
    assert heard == {("first", "first"), ("second", "second")}


@pytest.mark.slow
async def test_progress_is_not_asked_for_with_each_poll(server: FakeConnect) -> None:
    async with Hearing(server, tell_every_s=3600) as hearing:
        hearing.watch.watch(server.handle(FakeQuery(batch=1)))
        await looked(server, 10)
        assert server.asked["last_progress"] <= 1


async def test_an_end_is_reported_once_with_the_last_batch(server: FakeConnect) -> None:
    query, other = FakeQuery(batch=41), FakeQuery()
    handle, left = server.handle(query), server.handle(other)
    async with Hearing(server, tell_every_s=3600) as hearing:
        hearing.watch.watch(handle)
        hearing.watch.watch(left)
        await looked(server)
        query.active = False
        assert await hearing.hears(QueryEnded) == [QueryEnded(handle, None, 41)]
        assert hearing.watch.watched == {left}
        asked = server.asked["exception"]
        await looked(server)
        assert server.asked["exception"] == asked
        assert len(hearing.of(QueryEnded)) == 1


async def test_a_failed_query_is_reported_with_its_error(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery(active=False, error="no such column"))
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        assert await hearing.hears(QueryEnded) == [QueryEnded(handle, "no such column", None)]


async def test_before_a_failure_the_last_batch_is_told(server: FakeConnect) -> None:
    """It tells how well the query has gone since it failed before."""
    handle = server.handle(FakeQuery(active=False, error="no such column", batch=11))
    async with Hearing(server, tell_every_s=3600) as hearing:
        hearing.watch.watch(handle)
        await hearing.hears(QueryEnded)
        assert hearing.of(QueryProgressed) == [QueryProgressed(handle, progress(11))]


async def test_a_query_that_fails_while_its_server_shuts_down_is_lost(server: FakeConnect) -> None:
    """Such a server answers for a while, and its queries fail by whatever they miss first."""
    query = FakeQuery()
    handle = server.handle(query)
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        server.begins_none = (grpc.StatusCode.INTERNAL, "assertion failed")
        query.active, query.error = False, '"SparkContext.dagScheduler()" is null'
        await looked(server)
        assert not hearing.of(QueryEnded)
        server.begins_none = None
        server.forget()
        await hearing.hears(QueryLost)
        assert not hearing.of(QueryEnded)


async def test_a_query_that_fails_on_a_full_server_has_failed(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery(active=False, error="no such column"))
    server.begins_none = (grpc.StatusCode.RESOURCE_EXHAUSTED, "no more sessions")
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        assert await hearing.hears(QueryEnded) == [QueryEnded(handle, "no such column", None)]


async def test_a_query_whose_session_was_closed_is_lost(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        del server.sessions[handle.session_id]
        server.closed.add(handle.session_id)
        (lost,) = await hearing.hears(QueryLost)
        assert lost.handle == handle
        assert "has closed its session" in lost.why
        assert hearing.watch.watched == frozenset()


async def test_a_query_whose_session_is_unknown_is_lost_and_the_session_is_not_created(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    server.forget()
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        (lost,) = await hearing.hears(QueryLost)
        assert "does not know its session, so it was restarted" in lost.why
        assert server.sessions == {}


async def test_a_query_that_is_missing_in_its_session_is_lost_also_on_spark_4_1(server: FakeConnect) -> None:
    server.no_query = "[INTERNAL_ERROR] Streaming query {} is not found SQLSTATE: XX000"
    handle = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        server.sessions[handle.session_id].clear()
        (lost,) = await hearing.hears(QueryLost)
        assert "the server does not have it, so it was restarted" in lost.why
        assert not hearing.of(ServerSilent)


@pytest.mark.slow
async def test_a_restart_between_two_polls_loses_all_queries_and_creates_few_sessions(server: FakeConnect) -> None:
    handles = [server.handle(FakeQuery()) for _ in range(60)]
    async with Hearing(server) as hearing:
        for handle in handles:
            hearing.watch.watch(handle)
        await looked(server, 3 * len(handles))
        server.forget()
        lost = await hearing.hears(QueryLost, len(handles))
        assert {each.handle for each in lost} == set(handles)
        assert len(lost) == len(handles)
        assert len(server.sessions) <= polling.AT_ONCE
        assert not hearing.of(ServerSilent)


async def test_a_query_that_was_let_go_of_is_not_polled(server: FakeConnect) -> None:
    query = FakeQuery()
    gone, left = server.handle(query), server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        hearing.watch.watch(gone)
        hearing.watch.watch(left)
        hearing.watch.watch(left)
        await looked(server)
        hearing.watch.let_go(gone)
        hearing.watch.let_go(gone)
        query.active = False
        await looked(server, 5)
        assert not hearing.of(QueryEnded)
        assert server.sessions.keys() == {gone.session_id, left.session_id}


async def test_a_query_without_ids_cannot_be_watched(server: FakeConnect) -> None:
    async with Hearing(server) as hearing:
        with pytest.raises(ValueError, match="its ids are not known: find it first"):
            hearing.watch.watch(server.handle())


@pytest.mark.slow
async def test_only_so_many_calls_are_made_at_once(server: FakeConnect) -> None:
    server.speaks.clear()
    async with Hearing(server) as hearing:
        for _ in range(100):
            hearing.watch.watch(server.handle(FakeQuery()))
        await eventually(lambda: server.at_once == polling.AT_ONCE)
        server.speaks.set()
        await looked(server, 200)
        assert server.at_once == polling.AT_ONCE


@pytest.mark.slow
async def test_a_server_that_answers_slowly_is_polled_less_often(
    server: FakeConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a thousand streams start again, the polls of those that run would take a core."""
    monkeypatch.setattr(polling, "POLL_EVERY_S", 0.5)
    server.answers_after_s = 0.28
    async with Hearing(server, tell_every_s=3600) as hearing:
        hearing.watch.watch(server.handle(FakeQuery()))
        await eventually(lambda: server.asked["status"] == 1, "it is polled")
        began = time.monotonic()
        await eventually(lambda: server.asked["status"] == 2, "it is polled again")
        assert time.monotonic() - began > 1


async def test_very_many_queries_are_polled_less_often(server: FakeConnect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "POLLS_PER_S", 50)
    async with Hearing(server) as hearing:
        for _ in range(200):
            hearing.watch.watch(server.handle(FakeQuery()))
        await looked(server, 1)
        before, began_s = server.asked["status"], time.monotonic()
        await asyncio.sleep(1.0)
        asked, seconds = server.asked["status"] - before, time.monotonic() - began_s
        late = 200  # of a machine that stood still, each query's at once
        assert asked <= late + 100 * seconds, "200 at a time, each 50 ms, would be 4,000 in a second"


async def test_a_listener_that_fails_does_not_affect_others(
    server: FakeConnect, caplog: pytest.LogCaptureFixture
) -> None:
    async with Hearing(server) as broken, Hearing(server) as hearing:
        broken.watch._hear = _raise
        broken.watch.watch(server.handle(FakeQuery(active=False)))
        await eventually(lambda: "Could not handle an event" in caplog.text)
        hearing.watch.watch(server.handle(FakeQuery(active=False)))
        await hearing.hears(QueryEnded)


async def test_all_watches_of_a_process_share_a_connection_and_each_hears_only_of_its_own_queries(
    server: FakeConnect,
) -> None:
    one, two = FakeQuery(), FakeQuery()
    mine, yours = server.handle(one), server.handle(two)
    async with Hearing(server) as hearing:
        async with Hearing(server) as other:
            hearing.watch.watch(mine)
            other.watch.watch(yours)
            await looked(server, 4)
            assert hearing.watch._mine is not None
            assert other.watch._mine is not None
            assert hearing.watch._mine[0] is other.watch._mine[0]
            one.active = False
            await hearing.hears(QueryEnded)
            assert not other.of(QueryEnded)
        assert len(server.peers) == 1
        again = server.handle(FakeQuery(active=False))
        hearing.watch.watch(again)
        assert [each.handle for each in await hearing.hears(QueryEnded, 2)] == [mine, again]
        assert len(server.peers) == 1
        assert not hearing.of(ServerBack)


def _raise(_news: object) -> None:
    raise RuntimeError("a fault")


async def test_closing_while_a_query_changes_does_not_block(server: FakeConnect) -> None:
    hearing = Hearing(server)
    first, second = FakeQuery(), FakeQuery()
    hearing.watch.watch(server.handle(first))
    await looked(server)
    hearing.watch.watch(server.handle(second))
    assert hearing.watch._mine is not None
    hearing.watch._mine[0].polling._changed.set()
    await asyncio.wait_for(hearing.watch.close(), DEADLINE_S)
