"""Over which connections a token is sent to a Spark Connect server, and how long a channel to it lasts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import grpc
import pytest
from fake_connect import FakeConnect, FakeQuery
from queries_bench import ORDER
from query_watch_bench import POLL_EVERY_S, Hearing
from query_watch_bench import server as server
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect.grpc_calls.calls import ServerCalls, SessionUnknownError, UnansweredError
from airflow_provider.spark.connect.grpc_calls.channel import ServerChannel
from airflow_provider.spark.connect.grpc_calls.messages import Caller
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import AllowedServers, ConnectServer, ServerNotAllowedError
from airflow_provider.spark.runner import QueryAdopted, QueryUnreachable, RunnerEvent, ServersSilent, TaskFinished
from airflow_provider.spark.runners import watches
from airflow_provider.worker.hands.servers import Servers

TOKEN = "the-token-of-nobody"


async def test_a_token_is_sent_to_a_server_on_this_machine(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeConnect(credentials=grpc.local_server_credentials())
    await fake.start()
    try:
        known = fake.handle(FakeQuery())
        async with Hearing(fake, token=TOKEN) as hearing:
            assert await hearing.watch.find(known) == known
        assert fake.metadata["authorization"] == f"Bearer {TOKEN}"
        assert TOKEN not in caplog.text
    finally:
        await fake.stop()


async def test_a_token_is_not_sent_over_a_connection_that_others_can_read(
    server: FakeConnect, caplog: pytest.LogCaptureFixture
) -> None:
    """A server without TLS whose address is not ``localhost``, so it may be on another machine."""
    async with Hearing(server) as hearing:
        hearing.watch._settings = server.settings(token=TOKEN)
        with pytest.raises(UnansweredError) as refused:
            await hearing.watch.find(server.handle(FakeQuery()))
    assert server.asked.total() == 0
    assert TOKEN not in str(refused.value) + caplog.text


async def test_a_worker_calls_no_server_that_only_a_record_names(server: FakeConnect) -> None:
    """Whoever may write to the status topic could otherwise have workers call any host that these can reach."""
    heard: list[RunnerEvent] = []
    for own in (ConnectServer(host="own"), None):
        servers = Servers(own=own, allowed=AllowedServers.of(["sc://old"]))
        queries = servers.queries("w1", tell_every_s=60.0)(heard.append)
        try:
            queries.take_over(ORDER, server.handle(FakeQuery()).to_json())
            await eventually(lambda: heard)
        finally:
            await queries.close()
        said = heard.pop()
        assert isinstance(said, QueryUnreachable)
        assert "allow it by allowed_spark_servers" in said.why
        assert f"sc://127.0.0.1:{server.port} is not called" in said.why
        assert (server.asked.total(), server.peers) == (0, set())


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ("sc://own", "sc://OWN:15002/;user_id=cospark;use_ssl=false"),
        ("sc://old:1/;use_ssl=true;user_id=etl", "sc://Old:1/;user_id=etl;use_ssl=True"),
        ("sc://[::1]", "sc://[0:0:0:0:0:0:0:1]:15002"),
    ],
)
async def test_servers_that_are_allowed_and_the_worker_s_own_are_called(known: str, named: str) -> None:
    handle = QueryHandle(server=ConnectServer.parse(named), session_id="s")
    for servers in (Servers(own=ConnectServer.parse(known)), Servers(own=None, allowed=AllowedServers.of([known]))):
        assert (await servers.settings_of(handle)).server == ConnectServer.parse(known)


@pytest.mark.parametrize(
    "named",
    [
        "sc://host:443/;use_ssl=true;user_id=etl;x-databricks-cluster-id=mine",
        "sc://host:444/;use_ssl=true;user_id=etl",
        "sc://host:443/;use_ssl=false;user_id=etl",
        "sc://host:443/;use_ssl=true;use_ssl=false;user_id=etl",
        "sc://host:443/;user_id=etl",
        "sc://host:443/;use_ssl=true",
        "sc://host:443/;use_ssl=true;user_id=another",
        "sc://host.:443/;use_ssl=true;user_id=etl",
        "sc://h%6Fst:443/;use_ssl=true;user_id=etl",
    ],
)
async def test_a_record_changes_nothing_of_how_a_known_server_is_called(named: str) -> None:
    """It would turn off TLS, or end sessions of another user or cluster."""
    known = "sc://host:443/;use_ssl=true;user_id=etl"
    server = ConnectServer.parse(named)
    for servers in (Servers(own=ConnectServer.parse(known)), Servers(own=None, allowed=AllowedServers.of([known]))):
        with pytest.raises(ServerNotAllowedError) as refused:
            await servers.settings_of(QueryHandle(server=server, session_id="s"))
        said = str(refused.value).partition(" is not called")[0]
        assert ConnectServer.parse(said) == server, "what it says can be allowed as it stands"


async def test_a_channel_outlasts_its_server(server: FakeConnect) -> None:
    """It breaks off a call without an answer, finds the server that was started again, and hears that it has forgotten
    the session.
    """
    session = server.handle(FakeQuery()).session_id
    channel = ServerChannel(server.settings())
    await channel.open()
    server_calls = ServerCalls(channel, Caller(user_id="cospark", user_agent="cospark/tests"))
    try:
        await server_calls.require_session(session)
        server.speaks.clear()
        with pytest.raises(UnansweredError):
            await server_calls.running(session, timeout_s=0.1)
        await server.stop()
        with pytest.raises(UnansweredError):
            await server_calls.require_session(session)
        server.forget()
        await server.start()
        await asyncio.wait_for(_forgotten(server_calls, session), DEADLINE_S)
    finally:
        await channel.close()


async def test_who_waits_for_a_call_goes_on_when_its_channel_is_closed(server: FakeConnect) -> None:
    """Nobody has told them to end; a call that is cancelled by its caller is."""
    session = server.handle(FakeQuery()).session_id
    channel = ServerChannel(server.settings())
    await channel.open()
    server_calls = ServerCalls(channel, Caller(user_id="cospark", user_agent="cospark/tests"))
    server.speaks.clear()
    asking = [
        asyncio.create_task(ask)
        for ask in (
            server_calls.running(session),
            server_calls.interrupt(session, DEADLINE_S),
            server_calls.running(session),
        )
    ]
    await eventually(lambda: len(server.peers) == 1 and server.asked.total() == len(asking))
    asking[-1].cancel()
    await channel.close()
    *broken_off, cancelled = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(error) for error in broken_off] == ["the call was broken off"] * 2
    assert {type(error) for error in broken_off} == {UnansweredError}
    assert isinstance(cancelled, asyncio.CancelledError)


async def _forgotten(server_calls: ServerCalls, session: str) -> None:
    """Ask until the server answers that it does not know the session."""
    while True:
        try:
            await server_calls.require_session(session)
        except SessionUnknownError:
            return
        except UnansweredError:
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("it knows the session")


@pytest.mark.slow
@pytest.mark.usefixtures("server")  # which has all look often
async def test_a_changed_token_is_used_for_queries_that_are_already_watched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches, "LOOK_AGAIN_S", POLL_EVERY_S)
    fake = FakeConnect(credentials=grpc.local_server_credentials())
    await fake.start()
    here = ConnectServer(host="localhost", port=fake.port)
    known, heard = ["of-monday"], list[RunnerEvent]()

    async def token_of(_handle: QueryHandle) -> str:
        return known[-1]

    queries = Servers(own=here, token_of=token_of).queries("w1", tell_every_s=60.0)(heard.append)
    try:
        fake.token, query = "of-monday", FakeQuery()
        handle = replace(fake.handle(query), server=here)
        queries.take_over(ORDER, handle.to_json())
        await eventually(lambda: fake.asked["status"] > 0)
        assert heard == [QueryAdopted(order=ORDER, handle=handle.to_json())]
        fake.token = "of-tuesday"
        await eventually(lambda: queries.condition != "", "it is not let in any more")
        known.append("of-tuesday")
        await eventually(lambda: queries.condition == "", "it asks with the new one")
        query.active = False
        await eventually(lambda: len(heard) == 4)
        assert heard[1:3] == [ServersSilent(silent=True, detached=True), ServersSilent(silent=False, detached=True)]
        assert isinstance(heard[3], TaskFinished), "and hears of its end"
    finally:
        await queries.close()
        await fake.stop()
    assert "of-monday" not in caplog.text
    assert "of-tuesday" not in caplog.text
