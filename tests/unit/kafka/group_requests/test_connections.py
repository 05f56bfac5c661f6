"""How many connections a crowd of memberships opens at the same time. The broker here is a socket that says nothing."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from waiting import DEADLINE_S, eventually

from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.group_requests.connections import Address, Connections, Owner
from airflow_provider.kafka.group_requests.messages import NodeId
from airflow_provider.kafka.group_requests.requests import Heartbeat
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.values.model import GenerationId, MemberId

NODE = NodeId(1)


class Silent:
    """Accepts connections and answers nothing."""

    def __init__(self) -> None:
        self.port = 0
        self.open = 0
        self.most = 0
        self.accepted = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.accepted += 1
        self.most = max(self.most, self.open)
        await reader.read(-1)
        self.open -= 1
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Silent]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self


class Greeting(Silent):
    """Says which versions it knows, as a broker does first, and then nothing."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        correlation_id = (await reader.readexactly(size))[4:8]
        versions = b"".join(struct.pack(">hhh", key, 0, 4) for key in range(20))
        answer = correlation_id + struct.pack(">hi", 0, 20) + versions
        writer.write(struct.pack(">i", len(answer)) + answer)
        await super()._serve(reader, writer)


@asynccontextmanager
async def connections_to(silent: Silent, **extra: object) -> AsyncIterator[Connections]:
    extra = {"bootstrap.servers": f"127.0.0.1:{silent.port}", **extra}
    connections = Connections(KafkaSettings.from_extra(extra, conn_id="tests"))
    connections.learn(NODE, Address("127.0.0.1", silent.port))
    try:
        yield connections
    finally:
        await connections.close()


@pytest.mark.slow
async def test_a_crowd_that_joins_connects_a_few_at_a_time_and_says_soon_that_nobody_answers() -> None:
    async with Silent().listening() as silent:
        async with connections_to(silent, **{"socket.connection.setup.timeout.ms": 1_000}) as connections:
            joins = [
                connections.ask_alone(NODE, Owner(f"w{n}", "g"), object(), timeout_ms=60_000, idle_ms=1_000)
                for n in range(200)
            ]
            failed = await asyncio.wait_for(asyncio.gather(*joins, return_exceptions=True), DEADLINE_S)
        assert {type(error) for error in failed} == {TransportError}
        assert {error.fault for error in failed if isinstance(error, TransportError)} == {Fault.TIMEOUT}
        assert silent.accepted >= 1
        assert silent.most <= 50


async def test_those_who_wait_for_their_turn_keep_nobody_from_giving_up() -> None:
    async with Silent().listening() as silent, connections_to(silent) as connections:
        joins = [
            asyncio.ensure_future(
                connections.ask_alone(NODE, Owner(f"w{n}", "g"), object(), timeout_ms=60_000, idle_ms=1_000)
            )
            for n in range(100)
        ]
        await eventually(lambda: silent.accepted >= 10)
        for join in joins:
            join.cancel()
        ended = await asyncio.wait_for(asyncio.gather(*joins, return_exceptions=True), DEADLINE_S)
        assert {type(each) for each in ended} == {asyncio.CancelledError}


async def test_who_reaches_no_broker_at_all_learns_what_to_check() -> None:
    async with Silent().listening() as gone:
        pass
    async with connections_to(gone) as connections:
        with pytest.raises(TransportError, match=r"cannot connect to .*; check bootstrap\.servers .* broker runs$"):
            await connections.nodes()


@pytest.mark.parametrize("timeout_s", [None, 0.05])
async def test_a_request_on_the_connection_that_all_share_is_not_waited_for_without_end(
    timeout_s: float | None,
) -> None:
    patience_ms = 200 if timeout_s is None else 60_000
    heartbeat = Heartbeat("g", GenerationId(1), MemberId("m"), None)
    async with Greeting().listening() as broker:
        async with connections_to(broker, **{"socket.timeout.ms": patience_ms}) as connections:
            with pytest.raises(TransportError) as failed:
                await asyncio.wait_for(connections.ask(NODE, heartbeat, timeout_s=timeout_s), DEADLINE_S)
        assert failed.value.fault is Fault.TIMEOUT


async def test_only_who_gives_up_is_cancelled_and_not_who_waits_for_the_same_connection() -> None:
    async with Silent().listening() as silent, connections_to(silent) as connections:
        gives_up, waits = [asyncio.ensure_future(connections.ask(NODE, object())) for _ in range(2)]
        await eventually(lambda: silent.accepted == 1)
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        await connections.close()
        with pytest.raises(TransportError, match="the connection was closed") as failed:
            await waits
        assert failed.value.retriable


async def test_connections_to_one_broker_share_what_versions_it_knows() -> None:
    async with Greeting().listening() as broker, connections_to(broker) as connections:
        address = Address("127.0.0.1", broker.port)
        first, second = [await connections._open(address, request_timeout_ms=1_000, idle_ms=None) for _ in range(2)]
        assert first._versions[12] == (0, 4)
        assert second._versions is first._versions
        first.close()
        second.close()
