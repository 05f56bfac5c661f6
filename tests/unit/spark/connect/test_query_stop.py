"""Queries on a Spark Connect server are found, and stopped so that nobody can start one in their session again."""

from __future__ import annotations

import asyncio
import re
import uuid

import grpc
import pytest
from fake_connect import FakeConnect, FakeQuery
from grpc.aio import AioRpcError, Metadata
from query_watch_bench import Hearing, looked, short_answers
from query_watch_bench import server as server
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect import ending
from airflow_provider.spark.connect.ending import QueryNotStoppedError, end_session
from airflow_provider.spark.connect.grpc_calls.calls import ServerCalls, UnansweredError
from airflow_provider.spark.connect.grpc_calls.messages import Caller
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import QueryEnded, QueryStopped
from airflow_provider.spark.connect.server import ConnectServer


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_AGAIN_S", 0.05)


@pytest.fixture
def only_once(monkeypatch: pytest.MonkeyPatch, soon_again: None) -> None:
    """What is not confirmed is not tried again in the time that there is."""
    monkeypatch.setattr(ending, "_AGAIN_S", DEADLINE_S)


async def test_a_stopped_query_has_no_more_events_and_its_session_is_closed(server: FakeConnect) -> None:
    query = FakeQuery()
    handle = server.handle(query)
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
        assert not query.active
        assert server.closed == {handle.session_id}
        assert not hearing.watch.watched
        assert not hearing.news
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)


async def test_a_query_that_nobody_knew_of_is_stopped_with_its_session(server: FakeConnect) -> None:
    query = FakeQuery()
    known = server.handle(query)
    async with Hearing(server) as hearing:
        await hearing.watch.stop(server.handle(session_id=known.session_id), timeout_s=DEADLINE_S)
    assert not query.active
    assert server.closed == {known.session_id}


async def test_a_session_that_the_server_has_never_had_is_closed_too(server: FakeConnect) -> None:
    """Who was about to begin there comes too late."""
    handle = server.handle()
    async with Hearing(server) as hearing:
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert server.closed == {handle.session_id}
    assert next(iter(server.asked)) == "config"


async def test_a_query_that_has_ended_by_itself_can_be_stopped(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery(active=False, error="it failed"))
    async with Hearing(server) as hearing:
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert server.closed == {handle.session_id}


@pytest.mark.usefixtures("only_once")
async def test_a_server_that_does_not_confirm_it_is_an_error_that_names_both(server: FakeConnect) -> None:
    server.forgets_to_close = True
    handle = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        with pytest.raises(QueryNotStoppedError) as refused:
            await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert handle.session_id in str(refused.value)
    assert str(handle.server) in str(refused.value)
    assert "still accepts calls" in str(refused.value)


@pytest.mark.slow
async def test_a_server_that_is_back_in_time_does_confirm_it(server: FakeConnect) -> None:
    query = FakeQuery()
    handle = server.handle(query)
    await server.stop()
    async with Hearing(server) as hearing:
        stopping = asyncio.create_task(hearing.watch.stop(handle, timeout_s=DEADLINE_S))
        await asyncio.sleep(0.2)
        assert not stopping.done()
        await server.start()
        await stopping
    assert server.closed == {handle.session_id}


@pytest.mark.usefixtures("only_once")
@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED])
async def test_a_server_that_stays_away_or_lets_nobody_in_confirms_nothing(
    server: FakeConnect, code: grpc.StatusCode
) -> None:
    server.refusal = (code, "not today")
    async with Hearing(server) as hearing:
        with pytest.raises(QueryNotStoppedError, match="not today"):
            await hearing.watch.stop(server.handle(FakeQuery()), timeout_s=DEADLINE_S)


class Falling:
    """A server that says this to each of the first calls, and then nothing more."""

    def __init__(self, *says: AioRpcError) -> None:
        self._says = list(says)

    async def execute(self, request: bytes, timeout_s: float) -> list[bytes]:
        return [await self.ask("ExecutePlan", request, timeout_s)]

    async def ask(self, method: str, request: bytes, timeout_s: float) -> bytes:
        if self._says:
            raise self._says.pop(0)
        await asyncio.sleep(timeout_s)
        raise said(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")


def said(code: grpc.StatusCode, details: str) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details)


@pytest.mark.turned_clock
@pytest.mark.parametrize(
    ("says", "told"),
    [
        ([], "is stopped (it has not answered in time)"),
        ([said(grpc.StatusCode.UNAVAILABLE, "not today")], "(not today; then it has not answered in time)"),
        ([said(grpc.StatusCode.UNAUTHENTICATED, "not today")], "(not today; then it has not answered in time)"),
    ],
    ids=["nothing", "away", "refuses"],
)
async def test_the_last_words_of_a_server_outlast_the_time_that_it_is_given(says: list[AioRpcError], told: str) -> None:
    handle = QueryHandle(server=ConnectServer(host="spark", port=15002), session_id=str(uuid.uuid4()))
    calls = ServerCalls(Falling(*says), Caller(user_id="cospark", user_agent="tests"))
    with pytest.raises(QueryNotStoppedError, match=re.escape(told)):
        await end_session(calls, handle, timeout_s=30)


async def test_a_watch_that_is_closed_meanwhile_does_not_keep_a_query_from_being_stopped(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        hearing.watch.watch(handle)
        await looked(server)
        server.speaks.clear()
        stopping = asyncio.create_task(hearing.watch.stop(handle, timeout_s=DEADLINE_S))
        await asyncio.sleep(0)
        await hearing.watch.close()
        server.speaks.set()
        await stopping
    assert server.closed == {handle.session_id}


async def test_the_query_of_a_session_is_found_by_the_session_alone(server: FakeConnect) -> None:
    server.handle(FakeQuery())
    known = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        wanted = QueryHandle(server=known.server, session_id=known.session_id, conn_id="spark")
        found = await hearing.watch.find(wanted)
    assert found == QueryHandle(
        server=known.server,
        session_id=known.session_id,
        conn_id="spark",
        query_id=known.query_id,
        run_id=known.run_id,
    )


async def test_a_new_run_of_the_same_query_is_found_before_another_query(server: FakeConnect) -> None:
    old = server.handle(FakeQuery(active=False))
    server.handle(FakeQuery(), old.session_id)
    assert old.query_id is not None
    new = server.handle(FakeQuery(query_id=old.query_id), old.session_id)
    async with Hearing(server) as hearing:
        assert await hearing.watch.find(old) == new


async def test_looking_for_a_query_where_none_runs_makes_no_session(server: FakeConnect) -> None:
    ended, closed = server.handle(FakeQuery(active=False)), server.handle()
    server.closed.add(closed.session_id)
    async with Hearing(server) as hearing:
        assert await hearing.watch.find(ended) is None
        assert await hearing.watch.find(closed) is None
        assert await hearing.watch.find(server.handle(session_id=str(uuid.uuid4()))) is None
    assert server.sessions.keys() == {ended.session_id}


async def test_a_server_that_does_not_say_what_runs_there_is_an_error(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    server.speaks.clear()
    async with Hearing(server) as hearing:
        with short_answers(), pytest.raises(UnansweredError):
            await hearing.watch.find(handle)


@pytest.mark.usefixtures("only_once")
async def test_a_watcher_can_tell_a_stopped_query_from_one_that_ended_by_itself(server: FakeConnect) -> None:
    """Even if whoever stopped it was killed before it could close the session."""
    query = FakeQuery(batch=41)
    handle = server.handle(query)
    server.forgets_to_close = True
    async with Hearing(server) as hearing:
        with pytest.raises(QueryNotStoppedError):
            await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
        assert not query.active
        hearing.watch.watch(handle)
        assert await hearing.hears(QueryStopped) == [QueryStopped(handle)]
        assert hearing.watch.watched == frozenset()


@pytest.mark.usefixtures("only_once")
async def test_a_query_that_fails_because_its_session_is_being_ended_counts_as_stopped(server: FakeConnect) -> None:
    """It was just starting, and may load nothing any more: no attempt of its task has failed."""
    query = FakeQuery()
    handle = server.handle(query)
    server.forgets_to_close = True
    async with Hearing(server) as hearing:
        with pytest.raises(QueryNotStoppedError):
            await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
        query.error = "[CANNOT_LOAD_CHECKPOINT_FILE_MANAGER] Error loading streaming checkpoint file manager"
        hearing.watch.watch(handle)
        await eventually(lambda: hearing.watch.watched == frozenset())
        assert await hearing.hears(QueryStopped) == [QueryStopped(handle)]


async def test_a_server_that_refuses_the_setting_is_used_without(server: FakeConnect) -> None:
    stopped, ended = FakeQuery(), FakeQuery(batch=7)
    server.refuses_conf = True
    async with Hearing(server) as hearing:
        await hearing.watch.stop(server.handle(stopped), timeout_s=DEADLINE_S)
        assert not stopped.active
        handle = server.handle(ended)
        hearing.watch.watch(handle)
        ended.active = False
        assert await hearing.hears(QueryEnded) == [QueryEnded(handle, None, 7)]
