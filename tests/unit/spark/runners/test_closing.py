"""What closes waits for many things, and has one deadline for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from executor_bench import A0, A1, AWAY, Bench
from stand_ins import MemoryTopics
from turned_clock import CLOCK

from airflow_provider.spark.connect.connection import RELEASE_S
from airflow_provider.spark.connect.ending import QueryNotStoppedError
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.runner import OnEvent
from airflow_provider.spark.runners import connect_task_session
from airflow_provider.spark.runners.attached_tasks.attached import AttachedRunner
from airflow_provider.spark.runners.connect_task_session import ConnectSession
from airflow_provider.spark.runners.detached_queries import DetachedQueries, MakeQueries, nothing_detached
from airflow_provider.values.deadlines import Deadline
from airflow_provider.values.model import NO_TASKS, Tasks
from airflow_provider.worker.hands import executor as executor_module

pytestmark = pytest.mark.turned_clock


async def test_waits_with_one_deadline_do_not_add_up() -> None:
    deadline = Deadline(10)
    await asyncio.sleep(7)
    assert deadline.left_s() == pytest.approx(3)
    assert deadline.left_s(but_s=2) == pytest.approx(1)
    await asyncio.sleep(7)
    assert (deadline.left_s(), deadline.left_s(least_s=0.5)) == (0, 0.5)


def _slow_queries() -> MakeQueries:
    """The server of its queries answers nobody."""

    def make(on_event: OnEvent) -> DetachedQueries:
        queries = nothing_detached(on_event)

        async def close(*, timeout_s: float = 10.0) -> None:
            await asyncio.sleep(timeout_s)

        queries.close = close  # type: ignore[method-assign]
        return queries

    return make


async def test_a_worker_closes_within_one_deadline_whatever_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its tasks do not stop, the server of its detached queries is silent, and the broker is away."""
    caplog.set_level(logging.INFO)
    worker = Bench(MemoryTopics(), slots=2, linger_s=60, make_queries=_slow_queries())
    await worker.submit()
    worker.take(A0, A1)
    await worker.runs(A0, A1)

    async def close(*, timeout_s: float = 30.0) -> Tasks:
        await asyncio.sleep(timeout_s)
        running: Tasks = worker.runner.running
        return running

    monkeypatch.setattr(worker.runner, "close", close)
    worker.executor.leave_for_good()
    with worker.topics.out_of_order(AWAY):
        worker.runner.finish(A1)
        before = time.monotonic()
        await worker.executor.close()
    assert time.monotonic() - before <= executor_module._CLOSE_S + 2
    assert "waits up to 20 s until these have stopped: a:0" in caplog.text
    assert "still running at its end: a:0" in caplog.text


async def test_a_runner_keeps_a_part_of_its_time_for_the_end_of_spark() -> None:
    """Else a task that does not stop would leave none, and Spark would end with the process."""
    given: list[float] = []

    async def release(*, timeout_s: float) -> None:
        given.append(timeout_s)

    sparks: Any = SimpleNamespace(release=release)
    runner = AttachedRunner(lambda _event: None, allowed=[], sparks=sparks)

    async def stop(tasks: Any, reason: str, *, timeout_s: float = 30.0) -> Tasks:
        await asyncio.sleep(timeout_s)
        return NO_TASKS

    runner.stop = stop  # type: ignore[method-assign]
    runner._learning.add(asyncio.get_running_loop().create_future())
    before = time.monotonic()
    await runner.close(timeout_s=12)
    assert time.monotonic() - before == pytest.approx(8)
    assert given == [pytest.approx(4)]


def test_the_end_of_a_session_has_one_deadline_however_often_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was just restarted answers nobody, and each call waits for it."""
    CLOCK.take_over(monkeypatch)
    waited: list[float] = []

    def end_for_good(_session: Any, _server: ConnectServer, *, timeout_s: float) -> None:
        waited.append(timeout_s)
        CLOCK.turn(timeout_s)
        raise QueryNotStoppedError("it does not answer")

    monkeypatch.setattr(connect_task_session, "end_for_good", end_for_good)
    for name in ("hang_up", "unbind_session"):
        monkeypatch.setattr(connect_task_session, name, lambda _session: None)
    monkeypatch.setattr(connect_task_session, "settle", lambda _session, _timeout_s: None)
    unused: Any = None
    settings = ConnectSettings(server=ConnectServer(host="spark.example"))
    session = ConnectSession(
        unused, settings, unused, name="w1", session_id="a", check_owner=lambda: None, tell_every_s=1.0
    )
    session.spark, session._session = SimpleNamespace(alive=True), SimpleNamespace()  # type: ignore[assignment]
    session.cancel()
    session.cancel()
    session.close()
    assert sum(waited) == pytest.approx(RELEASE_S)
