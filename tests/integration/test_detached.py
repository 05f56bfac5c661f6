"""Detached streams on a real Spark Connect server, which all tests here share."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from detached_bench import COPY, Copying, Life, options_of, over
from fleet import SHORT_SESSION, Fleet, MakeFleet, cospark
from server_queries import active_queries, nothing_runs
from waiting import DEADLINE_S

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.state.records import ControlAction, ControlRecord, TaskState, WorkerPhase
from airflow_provider.state.views.presence import present
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.exit_requests import ExitRequests

W1, W2, W3 = map(WorkerId, ("w1", "w2", "w3"))


@pytest.fixture(autouse=True)
def connection(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))


async def test_a_query_keeps_running_in_the_triggerer_and_under_the_next_worker(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path)) as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()

        outcome = await asyncio.wait_for(life.in_process(ExitRequests(), linger_s=2.0), DEADLINE_S)
        assert outcome.ending is Ending.HANDED_OVER, "its process was only needed for the start"
        began = await life.begun()
        assert outcome.saved is not None
        assert "sc://" not in json.dumps(outcome.saved), "handles are only in the status topic"
        await copying.goes_on()

        trigger = life.trigger(outcome.saved)
        deferred = asyncio.ensure_future(anext(trigger.run()))
        await group.wait_for(lambda _, status: status.workers[W1].state is WorkerPhase.DEFERRED, "the trigger has it")
        await group.wait_for(
            lambda _, status: status.workers[W1].running == {began.task}, "the trigger reports what it watches"
        )
        await copying.goes_on()
        told = await life.said(lambda last: last.progress is not None, "the trigger reports progress")
        assert (told.handle, told.attempt) == (began.handle, began.attempt)

        group.start("w2")
        await group.wait_for(lambda _, status: W2 in present(status), "w2 has joined")
        assert (await cospark(group, "workers", "stop", group.group_id, "w1")).status == 0
        adopted = await life.said(lambda last: last.worker == W2 and last.state is TaskState.RUNNING, "w2 goes on")
        assert (adopted.handle, adopted.attempt) == (began.handle, began.attempt), "no stop, no start"
        assert active_queries(server.url, began.handle["session_id"]) == [began.handle["run_id"]]
        event = await asyncio.wait_for(deferred, DEADLINE_S)
        assert event.payload["ending"] == Ending.LEFT.value
        await over(trigger, deferred)
        await copying.goes_on()

        group.start("w3")
        await group.wait_for(lambda _, status: W3 in present(status), "w3 has joined")
        assert (await cospark(group, "scale", group.group_id, "--without", "w2")).status == 0
        assert await group.ended("w2") == [0], "it leaves at once"
        adopted = await life.said(lambda last: last.worker == W3 and last.state is TaskState.RUNNING, "w3 goes on")
        assert (adopted.handle, adopted.attempt) == (began.handle, began.attempt)
        assert active_queries(server.url, began.handle["session_id"]) == [began.handle["run_id"]]
        await copying.goes_on()

        assert (await cospark(group, "workers", "stop", group.group_id, "w3")).status == 0
        assert await group.ended("w3") == [0]
        stopped = await life.said(lambda last: last.state is TaskState.STOPPED, "no worker is left, so it is stopped")
        assert stopped.attempt == began.attempt
        await nothing_runs(server.url, began.handle)


async def test_the_last_of_two_leaving_workers_ends_the_queries_of_both(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path)) as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        began = await life.begun()
        group.start("w2")
        await group.wait_for(lambda _, status: W2 in present(status), "w2 has joined, with nothing to run")
        await asked_to_stop(group, W1)
        await group.wait_for(lambda _, said: said.workers[W1].state is not WorkerPhase.STABLE, "w1 is leaving")
        await asked_to_stop(group, W2)
        assert await group.ended("w1", "w2") == [0, 0]
        await nothing_runs(server.url, began.handle)


async def asked_to_stop(group: Fleet, worker: WorkerId) -> None:
    """The same as ``cospark workers stop``, but quicker."""
    await group.topics.publish_control(ControlRecord(worker=worker, action=ControlAction.STOP, at_ms=wall_ms()))


async def test_the_query_of_a_killed_worker_is_adopted_and_ended_on_request(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path), *SHORT_SESSION, "--max-delay-ms", "0") as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        began = await life.begun()
        await copying.goes_on()
        group.start("w2")
        await group.wait_for(lambda _, status: W2 in present(status), "w2 has joined")
        group.kill("w1")
        await copying.goes_on()
        adopted = await life.said(lambda last: last.worker == W2 and last.state is TaskState.RUNNING, "w2 goes on")
        assert (adopted.handle, adopted.attempt) == (began.handle, began.attempt)

        assert (await cospark(group, "jobs", "pause", group.group_id, "copy")).status == 0
        await life.said(lambda last: last.state is TaskState.STOPPED, "it is paused")
        await nothing_runs(server.url, began.handle)
        assert (await cospark(group, "jobs", "resume", group.group_id, "copy")).status == 0
        again = await life.said(
            lambda last: last.attempt > 1 and bool(last.handle and last.handle["run_id"]), "resumed"
        )
        await copying.goes_on()

        assert (await cospark(group, "jobs", "orphans", group.group_id)).status == 0, "no orphans"
        group.kill("w2")
        await copying.goes_on()
        left = await eventually_orphans(group)
        assert "copy:0 on sc://127.0.0.1" in left
        assert "the group has no workers" in left
        ended = await cospark(group, "jobs", "orphans", group.group_id, "--end", "--server", server.url)
        assert (ended.status, ended.out.strip().endswith(": ended")) == (0, True), ended
        await nothing_runs(server.url, again.handle)
        assert (await cospark(group, "jobs", "orphans", group.group_id)).status == 0


async def eventually_orphans(group: Fleet) -> str:
    """What ``cospark jobs orphans`` lists as soon as the coordinator misses the worker."""

    async def listed() -> str:
        while (said := await cospark(group, "jobs", "orphans", group.group_id)).status != 1:  # noqa: ASYNC110
            await asyncio.sleep(1)  # no event tells when the coordinator notices a lost member
        return said.out

    return await asyncio.wait_for(listed(), DEADLINE_S)


async def test_the_next_worker_ends_the_query_of_a_job_that_was_removed_meanwhile(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path), *SHORT_SESSION, "--max-delay-ms", "0") as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        began = await life.begun()
        group.kill("w1")
        assert (await cospark(group, "jobs", "remove", group.group_id, "copy")).status == 0
        assert active_queries(server.url, began.handle["session_id"]) == [began.handle["run_id"]]
        group.start("w2")
        await nothing_runs(server.url, began.handle)
        await group.wait_for(lambda _, status: not status.tasks, "its status is removed")


@pytest.mark.thorough  # with servers of their own
async def test_a_query_on_another_server_is_ended_before_a_new_one_starts_here(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path), *SHORT_SESSION, "--max-delay-ms", "0") as group:
        copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        began = await life.begun()
        await copying.goes_on()
        with LocalConnectServer(start_timeout_s=DEADLINE_S) as other:
            group.kill("w1")
            group.start("w2", "--spark-master", other.url, "--allow-spark-server", server.url)
            moved = await life.begun(2)
            assert moved.worker == W2
            assert active_queries(server.url, began.handle["session_id"]) == []
            await copying.goes_on()
            group.kill("w2")

        group.start("w1")
        waits = await life.said(
            lambda last: last.worker == W1 and last.error is not None, "it waits for the other server"
        )
        assert (waits.state, waits.attempt, waits.handle) == (TaskState.PENDING, 2, moved.handle)
        assert waits.error is not None
        assert str(ConnectServer.parse(other.url)) in waits.error.message
        assert (await cospark(group, "jobs", "orphans", group.group_id, "--forget", "copy:0")).status == 0
        again = await life.begun(3)
        assert again.worker == W1
        await copying.goes_on()


@pytest.mark.thorough  # with a server of its own
async def test_the_group_does_not_wait_for_a_paused_server(fleet: MakeFleet, tmp_path: Path) -> None:
    with LocalConnectServer(start_timeout_s=DEADLINE_S) as server:
        async with fleet(*options_of(server, tmp_path), *SHORT_SESSION, "--max-delay-ms", "0") as group:
            copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
            await copying.submit()
            group.start("w1")
            began = await life.begun()
            await copying.goes_on()
            group.start("w2")
            await group.wait_for(lambda _, status: W2 in present(status), "w2 has joined")
            assert server.pid is not None
            os.kill(server.pid, signal.SIGSTOP)
            assert (await cospark(group, "jobs", "restart", group.group_id, "copy")).status == 0
            waits = await life.said(
                lambda last: last.state is TaskState.PENDING, "it waits until its query can be ended"
            )
            assert (waits.worker, waits.handle) == (W1, began.handle)
            listed = await cospark(group, "jobs", "orphans", group.group_id)
            assert "its worker w1 can't end it" in listed.out
            assert (await cospark(group, "workers", "stop", group.group_id, "w1")).status == 0
            assert await group.ended("w1") == [0], "it leaves the query to w2"
            os.kill(server.pid, signal.SIGCONT)
            again = await life.begun(2)
            assert again.worker == W2, "w2 does the restart that w1 was asked for"
            await nothing_runs(server.url, began.handle)
            await copying.goes_on()


async def test_a_stream_that_ends_by_itself_finishes_in_the_triggerer(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path)) as group:
        life = Life(group, W1, server.url, tmp_path / "checkpoints")
        copying = Copying(group, tmp_path, bounded=True)
        for _ in range(60):
            copying.write()
        await copying.submit()
        outcome = await asyncio.wait_for(life.in_process(ExitRequests(), linger_s=2.0), DEADLINE_S)
        assert outcome.saved is not None
        assert group.topics.status.tasks[COPY].state is TaskState.RUNNING, "it has a batch for each file"
        trigger = life.trigger(outcome.saved)
        deferred = asyncio.ensure_future(anext(trigger.run()))
        ended = await life.said(lambda last: last.state is TaskState.FINISHED, "it has ended")
        assert ended.result["query_id"] == ended.handle["query_id"]
        await over(trigger, deferred)


@pytest.mark.thorough  # with servers of their own
async def test_the_queries_of_a_restarted_server_are_started_again_by_a_process(
    fleet: MakeFleet, tmp_path: Path
) -> None:
    with LocalConnectServer(start_timeout_s=DEADLINE_S) as server:
        async with fleet(*options_of(server, tmp_path)) as group:
            copying, life = Copying(group, tmp_path), Life(group, W1, server.url, tmp_path / "checkpoints")
            await copying.submit()
            outcome = await asyncio.wait_for(life.in_process(ExitRequests(), linger_s=2.0), DEADLINE_S)
            assert outcome.saved is not None
            await copying.goes_on()
            trigger = life.trigger(outcome.saved)
            deferred = asyncio.ensure_future(anext(trigger.run()))
            await group.wait_for(lambda _, said: said.workers[W1].state is WorkerPhase.DEFERRED, "the trigger has it")
            server.kill()
            server.start()
            event = await asyncio.wait_for(deferred, DEADLINE_S)
            assert event.payload["ending"] == Ending.HANDED_OVER.value, "there is something to start"
            await over(trigger, deferred)
            back = await asyncio.wait_for(
                life.in_process(ExitRequests(), event.payload["saved"], linger_s=2.0), DEADLINE_S
            )
            assert back.ending is Ending.HANDED_OVER
            again = await life.begun(2)
            assert (again.attempt, again.spark_deaths) == (2, 1)
            await copying.goes_on()
