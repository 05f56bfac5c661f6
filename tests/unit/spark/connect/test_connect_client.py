"""PySpark's client as workers use it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from fake_connect import FakeConnect
from query_watch_bench import server as server
from waiting import eventually

from airflow_provider.spark.connect.client import STARTS_AT_ONCE, hang_up, open_session
from airflow_provider.spark.connect.server import TOKEN_ENV


async def test_a_server_whose_connection_has_no_token_gets_none(
    server: FakeConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one in the environment may be for another server, and is sent over TLS, which this one does not speak."""
    monkeypatch.setenv(TOKEN_ENV, "of another server")
    session = open_session(server.settings(), "cospark/test")
    try:
        await asyncio.to_thread(session.interruptAll)
        assert "authorization" not in server.metadata
    finally:
        hang_up(session)


async def test_only_so_many_queries_start_at_the_same_time(server: FakeConnect) -> None:
    """A thousand would keep a server from answering anything else."""
    sessions = [open_session(server.settings(), "cospark/test") for _ in range(STARTS_AT_ONCE + 2)]
    streams = [session.readStream.format("rate").load().writeStream.format("noop") for session in sessions]
    for client in (
        cast("Any", session.client) for session in sessions
    ):  # asks no server from which size on to compress
        client._plan_compression_threshold, client._plan_compression_algorithm = -1, "NONE"
    server.speaks.clear()
    with ThreadPoolExecutor(len(sessions)) as threads:
        starts = [threads.submit(stream.start) for stream in streams]
        await eventually(lambda: server.asked["start"] == STARTS_AT_ONCE, "they start")
        hang_up(sessions[-1])
        await eventually(starts[-1].done, "nobody waits in vain")
        server.speaks.set()
        await eventually(lambda: all(start.done() for start in starts), "all others have started")
    assert [start for start in starts if start.exception() is not None] == [starts[-1]]
    assert server.at_once == STARTS_AT_ONCE
    for session in sessions:
        hang_up(session)
