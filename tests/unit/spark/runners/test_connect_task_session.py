"""What the session of a task on a Spark Connect server leaves behind."""

from __future__ import annotations

import asyncio

import pytest
from fake_connect import FakeConnect
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator
from query_watch_bench import server as server

from airflow_provider.spark.connect.client import open_session
from airflow_provider.spark.connect.connection import ConnectedServer, ServerConnection
from airflow_provider.spark.connect.shipping import Parcels
from airflow_provider.spark.runners.connect_task_session import ConnectSession


async def test_the_start_of_a_stream_that_goes_on_is_over_for_the_server(
    server: FakeConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark tells the server in the background that it has read the answer. Here it does not come to it."""

    def read_all(answers: ExecutePlanResponseReattachableIterator) -> None:
        answers._result_complete = True

    monkeypatch.setattr(ExecutePlanResponseReattachableIterator, "_release_all", read_all)
    settings, handle = server.settings(), server.handle()
    session = ConnectSession(
        ServerConnection(settings, "w"),
        settings,
        Parcels(),
        name="a:0",
        session_id=handle.session_id,
        check_owner=lambda: None,
        tell_every_s=1,
        detaches=handle,
    )
    session._session = spark = open_session(settings, "cospark/test", handle.session_id)
    session.spark = ConnectedServer(1, settings, spark)
    query = await asyncio.to_thread(spark.readStream.format("rate").load().writeStream.format("noop").start)
    assert len(server.executing[handle.session_id]) == 1
    assert session.let_go_on(query)
    await asyncio.to_thread(session.close)
    assert session.left_open
    assert server.executing[handle.session_id] == set()
    assert [each.run_id for each in server.sessions[handle.session_id] if each.active] == [str(query.runId)]
