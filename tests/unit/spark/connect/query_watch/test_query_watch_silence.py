"""A Spark Connect server that is away, pauses, starts anew or lets nobody in, under queries that are watched."""

from __future__ import annotations

import asyncio
import importlib
import random
from collections.abc import Callable
from types import ModuleType
from typing import cast

import grpc
import pytest
from fake_connect import FakeConnect, FakeQuery
from query_watch_bench import Hearing, looked, short_answers
from query_watch_bench import server as server
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect.grpc_calls.calls import ServerCalls, UnansweredError
from airflow_provider.spark.connect.grpc_calls.messages import QueryStatus, RunningQuery
from airflow_provider.spark.connect.query_watch import polling, silence
from airflow_provider.spark.connect.query_watch.polling import Listener, QueryPolling, Watched
from airflow_provider.spark.connect.query_watch.silence import SILENT_S, Silence
from airflow_provider.spark.connect.query_watch.watch_events import (
    QueryEnded,
    QueryLost,
    ServerBack,
    ServerSilent,
    WatchEvent,
)
from airflow_provider.spark.connect.trouble import Trouble


@pytest.mark.slow
async def test_a_paused_server_is_reported_once_and_its_queries_stay_watched(
    server: FakeConnect, caplog: pytest.LogCaptureFixture
) -> None:
    queries = [FakeQuery() for _ in range(20)]
    async with Hearing(server) as hearing:
        for query in queries:
            hearing.watch.watch(server.handle(query))
        await looked(server, 40)
        server.speaks.clear()
        with short_answers():
            await hearing.hears(ServerSilent)
            asked = sum(server.asked.values())
            await eventually(lambda: sum(server.asked.values()) >= asked + 2)
        queries[3].active = False
        server.speaks.set()
        await hearing.hears(QueryEnded)
        assert [type(each) for each in hearing.news] == [ServerSilent, ServerBack, QueryEnded]
        assert len(hearing.watch.watched) == 19
        assert caplog.text.count("gives no status of its queries") == 1


@pytest.mark.slow
async def test_only_queries_that_a_restarted_server_does_not_have_are_lost(
    server: FakeConnect, caplog: pytest.LogCaptureFixture
) -> None:
    handles = [server.handle(FakeQuery()) for _ in range(20)]
    async with Hearing(server) as hearing:
        for handle in handles:
            hearing.watch.watch(handle)
        await looked(server, 40)
        await server.stop()
        (silent,) = await hearing.hears(ServerSilent)
        assert silent.why
        kept = handles[0].session_id
        server.sessions = {kept: server.sessions[kept]}
        await server.start()
        await hearing.hears(QueryLost, 19)
        await looked(server)
        assert server.sessions.keys() == {kept}, "no session was made by asking"
        assert hearing.watch.watched == {handles[0]}
        assert len(hearing.of(QueryLost)) == 19
        assert [type(each) for each in hearing.news[:2]] == [ServerSilent, ServerBack]
    assert "gives no status of query" not in caplog.text, "it is said of the server, once"


async def test_a_new_watch_of_a_silent_server_hears_of_the_silence(server: FakeConnect) -> None:
    handle, later = server.handle(FakeQuery()), server.handle(FakeQuery())
    await server.stop()
    async with Hearing(server) as first, Hearing(server) as second:
        first.watch.watch(handle)
        await first.hears(ServerSilent)
        second.watch.watch(later)
        assert second.of(ServerSilent) == first.of(ServerSilent)
        await server.start()
        await first.hears(ServerBack)
        await second.hears(ServerBack)


async def test_a_server_that_is_away_is_asked_ever_less_often(server: FakeConnect) -> None:
    server.refusal = (grpc.StatusCode.UNAVAILABLE, "draining")
    async with Hearing(server) as hearing:
        for _ in range(50):
            hearing.watch.watch(server.handle(FakeQuery()))
        await hearing.hears(ServerSilent)
        assert server.asked["session"] <= polling.AT_ONCE + 10
        assert server.asked["status"] == 0


@pytest.mark.slow
async def test_a_server_that_refuses_calls_is_reported_with_its_message(
    server: FakeConnect, caplog: pytest.LogCaptureFixture
) -> None:
    server.refusal = (grpc.StatusCode.UNAUTHENTICATED, "Invalid token")
    async with Hearing(server) as hearing:
        hearing.watch.watch(server.handle(FakeQuery()))
        assert await hearing.hears(ServerSilent) == [ServerSilent("Invalid token")]
        server.refusal = None
        await hearing.hears(ServerBack)


@pytest.mark.slow
async def test_one_query_without_an_answer_is_no_silence(server: FakeConnect, caplog: pytest.LogCaptureFixture) -> None:
    odd = FakeQuery(says_nonsense=True)
    async with Hearing(server) as hearing:
        hearing.watch.watch(server.handle(FakeQuery()))
        await looked(server)
        hearing.watch.watch(server.handle(odd))
        await eventually(lambda: "gives no status of query" in caplog.text)
        await looked(server, 10)
        assert not hearing.news
        assert caplog.text.count("gives no status of query") == 1
        odd.says_nonsense, odd.active = False, False
        await hearing.hears(QueryEnded)


class Answering:
    """In the place of a server's calls about one query.

    :param fails: whether the first question gets no answer, but an error
    :ivar answer: when
    """

    def __init__(self, *, fails: bool) -> None:
        self.asked = 0
        self.answer = asyncio.Event()
        self._fails = fails

    async def require_session(self, _session: str) -> None:
        """It has the session."""

    async def status(self, _session: str, _query: object) -> QueryStatus:
        self.asked += 1
        await self.answer.wait()
        if self._fails and self.asked == 1:
            raise UnansweredError(Trouble.SLOW, "paused")
        return QueryStatus(is_active=True, in_batch=True)

    async def last_progress(self, _session: str, _query: object) -> None:
        """There is none yet."""


async def test_who_was_asked_in_vain_is_asked_again_as_soon_as_another_query_has_an_answer(
    server: FakeConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "POLL_EVERY_S", 2 * DEADLINE_S)
    monkeypatch.setattr(silence, "SILENT_S", 0.0)
    monkeypatch.setattr(random, "uniform", lambda least, _most: least)
    queries, handle, news = QueryPolling("server"), server.handle(FakeQuery()), list[WatchEvent]()
    paused, answered = Answering(fails=True), Answering(fails=False)
    for calls in (paused, answered):
        listener = Listener(cast("ServerCalls", calls), news.append, tell_every_s=2 * DEADLINE_S)
        queries.add(handle, RunningQuery("query", "run"), listener)
    running = asyncio.create_task(queries.run())
    await eventually(lambda: paused.asked == answered.asked == 1)
    paused.answer.set()
    await eventually(lambda: any(isinstance(each, ServerSilent) for each in news))
    await asyncio.sleep(0.05)  # it waits for what is due next
    answered.answer.set()
    await eventually(lambda: paused.asked == 2)
    running.cancel()


class Rambling(Answering):
    """The answers about this query can't be read."""

    async def status(self, _session: str, _query: object) -> QueryStatus:
        self.asked += 1
        raise UnansweredError(Trouble.OTHER, "nonsense")


class Telling(Rambling):
    """Notes with each question how much has been told before, and then does what is to be done at this question."""

    def __init__(self, news: list[WatchEvent]) -> None:
        super().__init__(fails=True)
        self.told_before: list[int] = []
        self.hooks: dict[int, Callable[[], None]] = {}
        self._news = news

    async def status(self, session: str, query: object) -> QueryStatus:
        self.told_before.append(len(self._news))
        self.hooks.get(len(self.told_before), lambda: None)()
        return await super().status(session, query)


@pytest.mark.parametrize(("odd", "silent"), [(1, False), (polling.AT_ONCE + 1, True)])
async def test_one_query_without_an_answer_is_no_silence_but_many_are_however_seldom_others_are_asked(
    server: FakeConnect, monkeypatch: pytest.MonkeyPatch, odd: int, silent: bool
) -> None:
    monkeypatch.setattr(silence, "SILENT_S", 0.0)
    queries, handle, news = QueryPolling("server"), server.handle(FakeQuery()), list[WatchEvent]()
    slow, rambling = Answering(fails=False), [Rambling(fails=False) for _ in range(odd)]
    slow.answer.set()

    def watch(calls: Answering) -> None:
        listener = Listener(cast("ServerCalls", calls), news.append, tell_every_s=2 * DEADLINE_S)
        queries.add(handle, RunningQuery("query", "run"), listener)

    watch(slow)
    running = asyncio.create_task(queries.run())
    await eventually(lambda: slow.asked >= 2)
    slow.answer.clear()
    for each in rambling:
        watch(each)
    await eventually(lambda: bool(news) if silent else rambling[0].asked >= 5)
    assert [type(each) for each in news[:1]] == [ServerSilent] * silent
    running.cancel()


@pytest.mark.parametrize("goes_at", [1, 2])
async def test_a_server_is_no_sooner_silent_for_the_calls_of_a_query_that_has_gone(
    server: FakeConnect, monkeypatch: pytest.MonkeyPatch, goes_at: int
) -> None:
    monkeypatch.setattr(silence, "SILENT_S", 2.0)
    monkeypatch.setattr(silence, "_FIRST_WAIT_S", 0.05)
    queries, handle, news = QueryPolling("server"), server.handle(FakeQuery()), list[WatchEvent]()
    at_first, later = Telling(news), Telling(news)

    def watch(calls: Answering) -> Watched:
        listener = Listener(cast("ServerCalls", calls), news.append, tell_every_s=2 * DEADLINE_S)
        return queries.add(handle, RunningQuery("query", "run"), listener)

    running = asyncio.create_task(queries.run())
    watched = watch(at_first)
    at_first.hooks[goes_at] = lambda: queries.remove(watched)
    await eventually(lambda: watched.gone)
    await asyncio.sleep(2.1)
    watch(later)
    await eventually(lambda: bool(news))
    assert later.told_before[:2] == [0, 0], "its first failure made the server silent"
    running.cancel()


async def test_a_missing_package_is_named(server: FakeConnect, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, package: str | None = None) -> ModuleType:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", fail)
    async with Hearing(server) as hearing:
        hearing.watch.watch(server.handle(FakeQuery()))
        (silent,) = await hearing.hears(ServerSilent)
        assert "No module named 'grpc.aio'" in silent.why
        assert "pip install" in silent.why
        with pytest.raises(UnansweredError, match="pip install"):
            await hearing.watch.find(server.handle())


def test_a_server_is_silent_after_a_while_and_asked_ever_less_often() -> None:
    silence = Silence()
    assert not silence.doubtful
    assert not silence.failed("away", asked_at=100.0, now=100.1)
    assert silence.doubtful
    assert silence.failed("still away", asked_at=104.0, now=100.0 + SILENT_S)
    assert silence.why == "still away"
    assert not silence.failed("away", asked_at=200.0, now=210.0), "told once"
    waits = [silence.wait_s() for _ in range(10)]
    assert waits == sorted(waits)
    assert waits[-1] == waits[-2]
    assert silence.answered()
    assert not silence.answered()
    assert silence.wait_s() == waits[0]


def test_a_call_that_has_waited_long_makes_a_server_silent_immediately() -> None:
    assert Silence().failed("no answer", asked_at=0.0, now=SILENT_S)


def test_a_server_is_silent_since_the_earliest_call_without_an_answer() -> None:
    silence = Silence()
    assert not silence.failed("a short call", asked_at=104.0, now=104.1)
    assert silence.failed("a long call", asked_at=100.0, now=100.0 + SILENT_S)
