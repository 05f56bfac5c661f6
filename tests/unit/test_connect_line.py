"""How a token gets to a Spark Connect server, and how it does not."""

from __future__ import annotations

import grpc
import pytest
from fake_connect import FakeConnect, FakeQuery
from query_watch_bench import Hearing
from query_watch_bench import server as server

from airflow_provider.spark_connect.asking import UnansweredError

TOKEN = "the-token-of-nobody"


async def test_a_token_goes_to_a_server_of_this_machine(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_a_token_goes_over_no_connection_that_others_can_read(
    server: FakeConnect, caplog: pytest.LogCaptureFixture
) -> None:
    """A server of another machine, as its address is not ``localhost``, that speaks no TLS."""
    async with Hearing(server) as hearing:
        hearing.watch._settings = server.settings(token=TOKEN)
        with pytest.raises(UnansweredError) as refused:
            await hearing.watch.find(server.handle(FakeQuery()))
    assert server.asked.total() == 0
    assert TOKEN not in str(refused.value) + caplog.text
