"""Detached streams on a real Spark Connect server: late starts, ends that nobody sees, and ``foreachBatch``."""

from __future__ import annotations

from pathlib import Path

import psutil
from detached_bench import COPY, JOB, Copying, Life, options_of
from fleet import SHORT_SESSION, MakeFleet, cospark
from server_queries import active_queries, is_closed, nothing_runs
from waiting import DEADLINE_S, eventually

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.client import hang_up, open_session, release
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings, session_id
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.presence import present
from airflow_provider.values.model import WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
LOST_SOON = (*SHORT_SESSION, "--max-delay-ms", "0")


async def test_a_foreach_batch_function_runs_without_a_worker_and_under_the_next_one(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path), *LOST_SOON) as group:
        # Spark gives up a Python worker that does not start within ten seconds, even on a busy machine.
        copying = Copying(group, tmp_path, job="AppendBatches", retries=20)
        life = Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        began = await life.said(
            lambda last: last.state is TaskState.RUNNING and bool(last.handle["run_id"]), "its query runs"
        )
        await copying.goes_on()
        group.kill("w1")
        await copying.goes_on()
        await copying.goes_on()
        writers = {int(file.read_text()) for file in (tmp_path / "output").glob("batch=*/written-by")}
        assert server.pid is not None
        assert writers <= {each.pid for each in psutil.Process(server.pid).children(recursive=True)}

        group.start("w2")
        adopted = await life.said(lambda last: last.worker == W2 and last.state is TaskState.RUNNING, "w2 goes on")
        assert (adopted.handle, adopted.attempt) == (began.handle, began.attempt), "no stop, no start"
        assert active_queries(server.url, began.handle["session_id"]) == [began.handle["run_id"]]
        await copying.goes_on()
        assert (await cospark(group, "workers", "stop", group.group_id, "w2")).status == 0
        assert await group.ended("w2") == [0]
        await nothing_runs(server.url, began.handle)
        copying.assert_each_once()


async def test_a_worker_suspended_before_its_query_starts_starts_none_when_it_wakes(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    """The other worker has read the handle, and ends its session: a query may still start there."""
    async with fleet(*options_of(server, tmp_path), *LOST_SOON) as group:
        copying = Copying(group, tmp_path, job="SleepsOnce", notes=str(tmp_path))
        life = Life(group, W1, server.url, tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        await eventually((tmp_path / "asleep").exists, "it sleeps")
        late = session_id(f"{group.topics.cluster}/{group.group_id}", JOB, "0", "first", "1")
        told = await life.said(lambda last: last.state is TaskState.RUNNING, "the session in which it begins is stored")
        assert (told.handle["session_id"], told.handle["run_id"]) == (late, None)
        group.pause("w1")
        group.start("w2")
        begun = await life.begun(2)
        assert begun.worker == W2
        await copying.goes_on()
        assert is_closed(server.url, late), "ended before it wakes"

        (tmp_path / "awake").touch()
        group.wake("w1")
        await group.wait_for(lambda _, status: {W1, W2} <= present(status), "w1 is back")
        await copying.goes_on()
        assert active_queries(server.url, late) == []
        assert active_queries(server.url, begun.handle["session_id"]) == [begun.handle["run_id"]]
        assert (await cospark(group, "workers", "stop", group.group_id, "w1", "w2")).status == 0
        assert await group.ended("w1", "w2") == [0, 0]
        assert "SESSION_CLOSED" in (tmp_path / "start").read_text()
        copying.assert_each_once()


async def test_a_query_that_has_ended_unseen_starts_again_and_finds_nothing_to_do(
    fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    """A server does not say how a query has ended in a session that it closed because nobody used it."""
    async with fleet(*options_of(server, tmp_path), *LOST_SOON) as group:
        copying = Copying(group, tmp_path, bounded=True)
        life = Life(group, W1, server.url, tmp_path / "checkpoints")
        for _ in range(40):
            copying.write()
        await copying.submit()
        group.start("w1")
        began = await life.begun()
        group.kill("w1")
        assert life.group.topics.status.tasks[COPY].state is TaskState.RUNNING, "it has a batch for each file"
        await copying.all_copied()
        await nothing_runs(server.url, began.handle)
        forget(server, began.handle["session_id"])
        group.start("w2")
        ended = await life.said(lambda last: last.state is TaskState.FINISHED, "it has finished")
        assert (ended.worker, ended.attempt, ended.spark_deaths) == (W2, 2, 1)
        assert ended.result["query_id"] == began.handle["query_id"], "it is the same query, by its checkpoint"
        assert commits(tmp_path) == 40, "it had nothing to do"
        copying.assert_each_once()


def forget(server: LocalConnectServer, session: str) -> None:
    """Close the session, as the server does by itself after an hour."""
    client = open_session(ConnectSettings(server=ConnectServer.parse(server.url)), "cospark/test", session)
    release(client, DEADLINE_S)
    hang_up(client)


def commits(folder: Path) -> int:
    return sum(file.name.isdigit() for file in folder.glob("checkpoints/**/commits/*"))
