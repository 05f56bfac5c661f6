"""The sessions of attempts on a real Spark Connect server, when some attempts were lost and others are late."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from importlib.machinery import FileFinder
from pathlib import Path
from typing import Any

import pytest
from runner_bench import order_of
from server_queries import is_being_ended, is_closed
from waiting import DEADLINE_S, eventually

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.connect.trouble import Trouble, trouble_of
from airflow_provider.spark.job import FencedError
from airflow_provider.spark.job.fencing import EndlessLease, Lease
from airflow_provider.spark.runners.connect import ConnectSparks
from airflow_provider.spark.runners.connect_task_session import ConnectSession

AT_ONCE_S = 5.0
FIRST = order_of("jobs_for_tests", "Append")
MakeSparks = Callable[..., ConnectSparks]


@pytest.fixture
async def workers(server: LocalConnectServer, request: pytest.FixtureRequest) -> AsyncIterator[MakeSparks]:
    """Makes the sessions of workers. The tests do not know each other's sessions."""
    made: list[ConnectSparks] = []

    def make(worker: str, *, lease: Lease | None = None, detach_by: str | None = None) -> ConnectSparks:
        settings = ConnectSettings(server=ConnectServer.parse(server.url))
        made.append(ConnectSparks(settings, worker, request.node.name, lease or EndlessLease(), 1.0, detach_by))
        return made[-1]

    yield make
    for sparks in made:
        await sparks.release(timeout_s=DEADLINE_S)


async def opened(session: ConnectSession) -> Any:
    return await asyncio.to_thread(session.open)


async def takes_calls(session: ConnectSession) -> bool:
    """Whether the server accepts calls in this session."""
    spark = await opened(session)
    try:
        await asyncio.to_thread(lambda: spark.range(1).count())
    except Exception as error:
        if trouble_of(error) is not Trouble.CLOSED:
            raise
        return False
    return True


async def close(*sessions: ConnectSession) -> None:
    for session in sessions:
        await asyncio.to_thread(session.close)


async def test_the_next_attempt_ends_all_sessions_of_the_one_before(workers: MakeSparks) -> None:
    """A worker was lost before it could write its record. So another one began the same attempt, and was lost, too."""
    unheard, lost = workers("w1").session(FIRST), workers("w2").session(FIRST)
    assert await takes_calls(unheard)
    assert await takes_calls(lost)
    assert not await takes_calls(unheard)
    after = workers("w3").session(replace(FIRST, attempt=2))
    assert await takes_calls(after)
    assert not await takes_calls(lost)
    await close(unheard, lost, after)


async def test_a_handle_names_the_session_that_is_really_used(workers: MakeSparks) -> None:
    unheard, begun = (workers(worker, detach_by="").session(FIRST) for worker in ("w1", "w2"))
    planned = begun.handle["session_id"]
    for session in (unheard, begun):
        spark = await opened(session)
        assert session.handle["session_id"] == spark.client._session_id
    assert unheard.handle["session_id"] == planned
    assert begun.handle["session_id"] != planned
    await close(unheard, begun)


class LeaseOver:
    """The lease of a worker that was suspended for longer than its session."""

    grant = 1

    def check(self, grant: int) -> None:
        raise FencedError(f"grant {grant} is over")

    def left_s(self, _grant: int) -> float:
        return 0.0


async def test_a_late_worker_does_not_end_the_session_of_the_task_s_present_worker(workers: MakeSparks) -> None:
    owner, late = workers("w1").session(FIRST), workers("w2", lease=LeaseOver()).session(FIRST)
    assert await takes_calls(owner)
    with pytest.raises(FencedError):
        await opened(late)
    assert await takes_calls(owner)
    await close(owner, late)


class Finders(dict[str, FileFinder | None]):
    """Python's cache of finders, in which two threads both see the entry that each of them will remove."""

    def __init__(self) -> None:
        super().__init__({"nowhere": None})
        self._both = threading.Barrier(2)

    def items(self) -> Any:
        seen = list(super().items())
        with suppress(threading.BrokenBarrierError):
            self._both.wait(AT_ONCE_S)
        return seen


async def test_two_streams_that_start_at_the_same_time_both_send_their_modules(
    workers: MakeSparks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark clears Python's cache of finders whenever modules are sent to a session."""
    sparks = workers("w1", detach_by="")
    sessions = [sparks.session(order_of("jobs_for_tests", "Append", index)) for index in (0, 1)]
    monkeypatch.setattr(sys, "path_importer_cache", Finders())
    await asyncio.gather(*map(opened, sessions))
    monkeypatch.undo()
    assert not [entry for entry in sys.path if "cospark-spark-" in entry], (
        "the folders of both sessions are off the path"
    )
    assert all([await takes_calls(session) for session in sessions])
    await close(*sessions)


async def test_an_attempt_that_fails_during_a_start_leaves_no_query_behind(
    workers: MakeSparks, server: LocalConnectServer, tmp_path: Path
) -> None:
    """For example, its code no longer waits for the start. That goes on, and the session stays open until its end."""
    session = workers("w1", detach_by="").session(FIRST)
    spark = await opened(session)
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    metadata = tmp_path / "metadata"
    os.mkfifo(metadata)

    def start() -> None:
        with suppress(Exception):
            stream.option("checkpointLocation", str(tmp_path)).start()

    threading.Thread(target=start, daemon=True).start()
    pipe = await asyncio.to_thread(os.open, metadata, os.O_WRONLY)
    closing = asyncio.create_task(close(session))
    await eventually(lambda: is_being_ended(server.url, session.handle["session_id"]), "it is being ended")
    os.write(pipe, json.dumps({"id": str(uuid.uuid4())}).encode())
    os.close(pipe)
    await closing
    assert not session.left_open
    assert is_closed(server.url, session.handle["session_id"])
