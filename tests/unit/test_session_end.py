"""A session is closed only when nothing is executed in it any more: a start of a query goes on after an interrupt."""

from __future__ import annotations

import asyncio

import grpc
import pyspark.sql.connect.proto as theirs
import pytest
from fake_connect import FakeConnect, FakeQuery
from query_watch_bench import Hearing
from query_watch_bench import server as server
from waiting import DEADLINE_S, eventually

from airflow_provider.spark_connect import ending
from airflow_provider.spark_connect.ending import QueryNotStoppedError, end_session
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.server import ConnectServer

SAYS_WHAT_IT_EXECUTES = hasattr(theirs, "GetStatusRequest")
START = "3f0c4fd8-b8b6-4d2e-a8f5-5f6f2f3c9a10"


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_what_is_being_started_there_is_waited_for_and_stopped(
    server: FakeConnect, starting: QueryHandle
) -> None:
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


async def test_no_query_starts_there_before_what_is_being_started_is_interrupted(server: FakeConnect) -> None:
    handle = server.handle(FakeQuery())
    async with Hearing(server) as hearing:
        await hearing.watch.stop(handle, timeout_s=DEADLINE_S)
    assert list(server.asked)[:2] == ["config", "interrupt"]
    assert server.conf[handle.session_id] == {
        "spark.sql.streaming.checkpointFileManagerClass": "this.session.is.being.ended"
    }


class ForgetsWhatItInterrupted:
    """The calls to a server before Spark 4.2: it names an operation only to who interrupts it first."""

    def __init__(self) -> None:
        self.asked_for: list[frozenset[str]] = []
        self._interrupted = False

    async def refuse_starts(self, session_id: str, timeout_s: float) -> None: ...

    async def interrupt(self, session_id: str, timeout_s: float) -> frozenset[str]:
        first, self._interrupted = not self._interrupted, True
        return frozenset({START} if first else ())

    async def is_executing(self, session_id: str, operations: set[str], timeout_s: float) -> bool:
        self.asked_for.append(frozenset(operations))
        return True


async def test_what_was_interrupted_is_remembered_by_who_ends_the_session_in_several_tries() -> None:
    handle = QueryHandle(server=ConnectServer(host="spark.example"), session_id="a-session")
    calls, interrupted = ForgetsWhatItInterrupted(), set[str]()
    for _ in range(2):
        with pytest.raises(QueryNotStoppedError):
            await end_session(calls, handle, interrupted, timeout_s=0.05)  # type: ignore[arg-type]  # as far as it gets
    assert set(calls.asked_for) == {frozenset({START})}
