"""Workers that leave or are killed while a real Spark Connect server starts their stream."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest
from detached_bench import Copying, Life, options_of
from fleet import SHORT_SESSION, MakeFleet, cospark
from server_queries import active_queries, is_being_ended, is_closed
from waiting import eventually

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import WorkerId

W2 = WorkerId("w2")
LOST_SOON = (*SHORT_SESSION, "--max-delay-ms", "0")


class Pipe:
    """A pipe in place of a checkpoint's file: the start on the server waits for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._end = -1

    def is_read(self) -> bool:
        """Whether the server waits for it. It then waits until :meth:`let_go_on`."""
        for path in self._folder.rglob("metadata"):
            try:
                self._end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return False
        return self._end >= 0

    def let_go_on(self) -> None:
        """Let the start continue. Later starts find an ordinary file."""
        metadata = json.dumps({"id": str(uuid.uuid4())})
        for path in self._folder.rglob("metadata"):
            hidden = path.with_suffix(".new")
            hidden.write_text(metadata)
            hidden.rename(path)
        os.write(self._end, metadata.encode())
        os.close(self._end)


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_worker_that_goes_during_a_start_leaves_no_query_behind(
    how: str, fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(server, tmp_path), *LOST_SOON) as group:
        copying = Copying(group, tmp_path, job="StartsWhenLet", retries=20, notes=str(tmp_path))
        life = Life(group, "w1", server.url, tmp_path / "checkpoints")
        pipe = Pipe(tmp_path / "checkpoints")
        await copying.submit()
        group.start("w1")
        begun = await life.said(lambda last: last.state is TaskState.RUNNING, "its handle is stored")
        session = begun.handle["session_id"]
        await eventually(pipe.is_read, "the server starts it")

        if how == "stopped":
            assert (await cospark(group, "workers", "stop", group.group_id, "w1")).status == 0
        else:
            group.kill("w1")
            group.start("w2")
        await eventually(lambda: is_being_ended(server.url, session), "its session is being ended")
        assert active_queries(server.url, session) == []
        assert not is_closed(server.url, session), "not before its start has ended"

        pipe.let_go_on()
        await eventually(lambda: is_closed(server.url, session), "its session is closed")
        if how == "stopped":
            assert await group.ended("w1") == [0]
            start = (tmp_path / "start").read_text()
            assert "OPERATION_CANCELED" not in start, "Spark may forget the query of a start that is interrupted"
            group.start("w2")
        again = await life.said(
            lambda last: last.worker == W2 and last.state is TaskState.RUNNING and bool(last.handle["run_id"]),
            "it runs at w2",
        )
        assert active_queries(server.url, again.handle["session_id"]) == [again.handle["run_id"]]
        await copying.goes_on()
        assert (await cospark(group, "workers", "stop", group.group_id, "w2")).status == 0
        assert await group.ended("w2") == [0]
        copying.assert_each_once()
