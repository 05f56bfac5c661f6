"""Streams that go on without the process that began them, on a real Spark Connect server: one for all tests here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from detached_bench import Copying, Life, active_queries, nothing_runs, over
from fleet import DEADLINE_S, MakeFleet, cospark

from airflow_provider.broker.local_broker import LocalBroker
from airflow_provider.broker.spark_connect import LocalConnectServer
from airflow_provider.protocol.model import WorkerId
from airflow_provider.records import TaskState, WorkerPhase
from airflow_provider.spark_connect.client import require_client
from airflow_provider.worker.ending import Ending
from airflow_provider.worker.reins import Reins

W1, W2 = WorkerId("w1"), WorkerId("w2")


@pytest.fixture(scope="module")
def server() -> Iterator[LocalConnectServer]:
    require_client()
    conf = {"spark.python.authenticate.socketTimeout": f"{DEADLINE_S:.0f}s"}
    with LocalConnectServer(conf=conf, start_timeout_s=DEADLINE_S) as server:
        yield server


@pytest.fixture(autouse=True)
def connection(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))


def options_of(server: LocalConnectServer, folder: Path) -> tuple[str, ...]:
    """Of ``cospark worker``."""
    jobs = ("--allow", "jobs_for_tests", "--checkpoint-root", str(folder / "checkpoints"))
    return ("--spark-master", server.url, *jobs)


async def test_a_query_goes_on_in_the_triggerer_and_with_the_next_worker(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path)) as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()

        outcome = await asyncio.wait_for(life.in_process(Reins(), linger_s=0.2), DEADLINE_S)
        assert outcome.ending is Ending.HANDED_OVER, "its process was needed for the start only"
        began = await life.begun()
        assert outcome.saved is not None
        assert "sc://" not in json.dumps(outcome.saved), "handles stand in the status topic only"
        await copying.goes_on()

        trigger = life.trigger(outcome.saved)
        deferred = asyncio.ensure_future(anext(trigger.run()))
        await group.wait_for(lambda _, status: status.workers[W1].state is WorkerPhase.DEFERRED, "the trigger has it")
        await copying.goes_on()
        told = await life.said(lambda last: last.progress is not None, "the trigger tells how far it is")
        assert (told.handle, told.attempt) == (began.handle, began.attempt)

        group.start("w2")
        await group.wait_for(lambda _, status: W2 in status.group.members, "another worker comes")
        assert (await cospark(group, "workers", "stop", group.group_id, "w1")).status == 0
        adopted = await life.said(lambda last: last.worker == W2 and last.state is TaskState.RUNNING, "w2 goes on")
        assert (adopted.handle, adopted.attempt) == (began.handle, began.attempt), "no stop, no start"
        assert active_queries(server.url, began.handle["session_id"]) == [began.handle["run_id"]]
        event = await asyncio.wait_for(deferred, DEADLINE_S)
        assert event.payload["ending"] == Ending.LEFT.value
        await over(trigger, deferred)
        await copying.goes_on()

        assert (await cospark(group, "workers", "stop", group.group_id, "w2")).status == 0
        assert await group.ended("w2") == [0]
        stopped = await life.said(lambda last: last.state is TaskState.STOPPED, "nobody stays, so it is stopped")
        assert stopped.attempt == began.attempt
        await nothing_runs(server.url, began.handle)
