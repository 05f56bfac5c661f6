"""PySpark's client as workers use it."""

from __future__ import annotations

import asyncio

import pytest
from fake_connect import FakeConnect
from query_watch_bench import server as server

from airflow_provider.spark.connect.client import hang_up, open_session
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
