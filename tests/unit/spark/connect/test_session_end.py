"""A session is closed only when nothing is executed in it any more: an interrupt does not end the start of a query."""

from __future__ import annotations

import asyncio
import uuid

import grpc
import pyspark.sql.connect.proto as theirs
import pytest
from fake_connect import FakeConnect, FakeQuery
from query_watch_bench import Hearing
from query_watch_bench import server as server
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect import ending
from airflow_provider.spark.connect.ending import QueryNotStoppedError
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import start_id

SAYS_WHAT_IT_EXECUTES = hasattr(theirs, "GetStatusRequest")
START = "3f0c4fd8-b8b6-4d2e-a8f5-5f6f2f3c9a10"


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, calls take longer than these tests wait."""
    monkeypatch.setattr(ending, "_LEAST_S", DEADLINE_S)
    monkeypatch.setattr(ending, "_AGAIN_S", 0.05)
    monkeypatch.setattr(ending, "_LOOK_S", 0.01)


@pytest.fixture(
    params=[
        pytest.param(None, id="Spark 4.2"),
        pytest.param((grpc.StatusCode.UNIMPLEMENTED, "Method not found"), id="before"),
        pytest.param((grpc.StatusCode.PERMISSION_DENIED, "not for you"), id="a strict one"),
    ]
)
def starting(server: FakeConnect, request: pytest.FixtureRequest) -> QueryHandle:
    """The handle of a query that is being started."""
    if request.param is None and not SAYS_WHAT_IT_EXECUTES:
        pytest.skip("the PySpark here can't play a server of Spark 4.2")
    server.keeps_secret = request.param
    handle = server.handle()
    server.executing[handle.session_id] = {START}
    server.sessions[handle.session_id] = []
    return handle


async def test_a_starting_query_is_waited_for_and_stopped(server: FakeConnect, starting: QueryHandle) -> None:
    query = FakeQuery()
    asked = "status" if server.keeps_secret is None else "operation"
    async with Hearing(server) as hearing:
        stopping = asyncio.create_task(hearing.watch.stop(starting, timeout_s=DEADLINE_S))
        await eventually(lambda: server.asked[asked] > 1, "it is asked again")
        assert not stopping.done()
        assert "running" not in server.asked, "too early"
        server.sessions[starting.session_id].append(query)
        server.executing.clear()
        await stopping
    assert not query.active
    assert server.closed == {starting.session_id}


async def test_a_start_that_does_not_end_keeps_the_session_open(server: FakeConnect, starting: QueryHandle) -> None:
    async with Hearing(server) as hearing:
        with pytest.raises(QueryNotStoppedError, match="still executes what was interrupted"):
            await hearing.watch.stop(starting, timeout_s=0.3)
    assert not server.closed


async def test_a_start_is_not_interrupted(server: FakeConnect) -> None:
    """Spark may then forget the query that comes of it, and nobody could stop it."""
    if not SAYS_WHAT_IT_EXECUTES:
        pytest.skip("the PySpark here can't play a server of Spark 4.2")
    handle, query = server.handle(FakeQuery()), FakeQuery()
    server.executing[handle.session_id] = {start_id(), str(uuid.uuid4())}
    async with Hearing(server) as hearing:
        with pytest.raises(QueryNotStoppedError, match="still starting a query"):
            await hearing.watch.stop(handle, timeout_s=0.3)
        assert "interrupt" not in server.asked
        server.sessions[handle.session_id].append(query)
        server.executing[handle.session_id] = {START}
        stopping = asyncio.create_task(hearing.watch.stop(handle, timeout_s=DEADLINE_S))
        await eventually(lambda: server.interrupted == {START}, "what else it executes is interrupted")
        server.executing.clear()
        await stopping
    assert not query.active
    assert server.closed == {handle.session_id}


async def test_starts_are_refused_before_anything_is_interrupted(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert [asked for asked in server.asked if asked != "status"][:2] == ["config", "interrupt"]
    assert server.conf[handle.session_id] == {
        "spark.sql.streaming.checkpointFileManagerClass": "this.session.is.being.ended"
    }


async def test_starts_are_refused_first_even_if_the_server_was_away_for_a_moment(server: FakeConnect) -> None:
    """The first call after a lost connection fails, and the next one connects again."""
    handle = server.handle(FakeQuery())
    server.refuses_once["config"] = grpc.StatusCode.UNAVAILABLE, "Socket closed"
    async with Hearing(server) as hearing:
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert server.closed == {handle.session_id}
    assert server.conf[handle.session_id], "no query starts there"


async def test_a_session_is_ended_even_if_the_server_does_not_let_it_refuse_starts(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    server.refuses_conf = True
    async with Hearing(server) as hearing:
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert server.closed == {handle.session_id}


async def test_another_try_still_waits_for_the_operations_interrupted_before(
    server: FakeConnect, starting: QueryHandle
) -> None:
    """A server before Spark 4.2 tells the id of an operation only to the caller that interrupts it first."""
    async with Hearing(server) as first, Hearing(server) as second:
        for hearing in (first, first, second):
            with pytest.raises(QueryNotStoppedError, match="still executes"):
                await hearing.watch.stop(starting, timeout_s=0.3)
        assert not server.closed
        server.executing.clear()
        await second.watch.stop(starting, timeout_s=DEADLINE_S)
    assert starting.session_id not in {session for _, session in ending._interrupted}
