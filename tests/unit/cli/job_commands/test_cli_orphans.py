"""``cospark jobs orphans`` as a user sees it: with a server's messages, and topics in memory."""

from __future__ import annotations

import argparse
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from fake_connect import FakeConnect, FakeQuery
from fake_kubernetes import api_server
from group_records import record_of
from stand_ins import MemoryTopics
from waiting import DEADLINE_S

from airflow_provider.cli.job_commands import jobs as jobs_module
from airflow_provider.cli.job_commands import orphans as command
from airflow_provider.cli.shared import reading
from airflow_provider.integration.memberships import deserted
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.spark.connect import ending as session_ending
from airflow_provider.spark.connect.server import TOKEN_ENV
from airflow_provider.spark.submit.driver_handle import tag_of
from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands import end_orphan_queries as ending

W1 = WorkerId("w1")
JOB = JobDefinition(name="a", entry_point="m:f", kind=TaskKind.STREAMING, max_tasks=200)
SECRET = "a-token"  # a made up one


class Orphans:
    """Runs the command over a group in memory."""

    def __init__(self, capsys: pytest.CaptureFixture[str], server: FakeConnect) -> None:
        self.topics = MemoryTopics("g")
        self.server = server
        self.url = f"sc://127.0.0.1:{server.port}"
        self.allowed = True
        self.deserted = True
        self._capsys = capsys

    async def __call__(self, *options: str) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser()
        jobs_module.add_arguments(parser)
        allowed = ("--allow-spark-server", self.url) if "--end" in options and self.allowed else ()
        args = parser.parse_args(["orphans", "g", *options, *allowed, "--bootstrap-servers", "nowhere:9"])
        status = await command.run(args, KafkaSettings.from_extra({"bootstrap.servers": "nowhere:9"}, conn_id="c"))
        told = self._capsys.readouterr()
        return status, told.out, told.err

    async def runs(self, index: int = 0, **more: Any) -> FakeQuery:
        """A running query, and the record that its worker has written."""
        query = FakeQuery()
        handle = self.server.handle(query).to_json()
        said = {"state": TaskState.RUNNING, "epoch": Epoch(1), "worker": W1, "started_at_ms": 1, "handle": handle}
        await self.topics.publish_task(TaskStatus(task=TaskId("a", index), **{**said, **more}))
        return query

    async def has_worker(self, *running: TaskId, condition: str = "") -> None:
        self.deserted = False
        await self.topics.publish_group(record_of({W1: frozenset(running)}, epoch=1))
        said = WorkerStatus(
            worker=W1,
            state=WorkerPhase.DEFERRED,
            epoch=Epoch(1),
            slots=2,
            running=frozenset(running),
            condition=condition,
        )
        await self.topics.publish_worker(said)

    def state(self, index: int = 0) -> TaskState:
        return self.topics.status.tasks[TaskId("a", index)].state


@pytest.fixture
async def server() -> AsyncIterator[FakeConnect]:
    fake = FakeConnect()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def orphans(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, server: FakeConnect) -> Orphans:
    made = Orphans(capsys, server)

    async def reach(_settings: KafkaSettings) -> None: ...

    async def has_members(_group: str, _settings: KafkaSettings) -> bool:
        return not made.deserted

    monkeypatch.setattr(reading, "reach", reach)
    monkeypatch.setattr(reading, "GroupTopics", lambda _settings, _group: made.topics)
    monkeypatch.setattr(deserted, "has_members", has_members)
    await made.topics.submit(JOB)
    await made.topics.publish_plan(PlanRecord.of(JOB, [{}] * 200, planned_by=W1, at_ms=0))
    return made


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_driver_in_a_pod_is_killed_if_its_master_is_allowed(
    orphans: Orphans, allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with api_server() as kubernetes:
        master = f"k8s://{kubernetes.address}"
        tag = tag_of("/g/a/0", "etl")
        handle = {"cluster": f"{master}/namespaces/etl", "tag": tag, "since_ms": 0, "result": {}}
        await orphans.runs(handle=handle)
        status, out, _ = await orphans("--end", *(("--allow-master", master) if allowed else ()))
        assert (status, bool(kubernetes.asked)) == ((0, True) if allowed else (1, False))
        assert out.startswith(f"a:0 on {master}/namespaces/etl: ")
        assert out.rstrip().endswith("ended" if allowed else "--allow-master of cospark jobs orphans)")


async def test_orphans_are_listed_and_ended(orphans: Orphans) -> None:
    query = await orphans.runs()
    status, out, err = await orphans()
    assert (status, out.strip()) == (1, f"a:0 on sc://127.0.0.1:{orphans.server.port}: the group has no workers")
    assert "--end" in err, "what can be done"
    assert "--forget" in err, "what can be done"
    assert query.active
    status, out, _ = await orphans("--end")
    assert (status, out.strip().endswith(": ended"), query.active, orphans.state()) == (
        0,
        True,
        False,
        TaskState.STOPPED,
    )
    assert await orphans("--json") == (0, json.dumps({"orphans": []}) + "\n", "")


async def test_a_query_whose_record_was_overwritten_is_ended_too(orphans: Orphans) -> None:
    first = await orphans.runs()
    second = await orphans.runs(epoch=Epoch(2))
    status, out, _ = await orphans("--end")
    assert (status, out.count(": ended"), first.active, second.active) == (0, 2, False, False)
    assert (await orphans())[0] == 0


async def test_such_a_query_is_ended_even_after_its_job_was_removed(orphans: Orphans) -> None:
    first = await orphans.runs()
    await orphans.runs(epoch=Epoch(2))
    last = orphans.topics.status.tasks[TaskId("a", 0)]
    await orphans.topics.publish_task(replaced(last, state=TaskState.STOPPED))
    await orphans.topics.remove("a", by="me")
    status, out, _ = await orphans("--end")
    assert (status, out.count(": ended"), first.active) == (0, 1, False)
    assert not orphans.topics.status.tasks, "its job was removed, so no record is left"


@pytest.mark.parametrize("ended", ["first", "second"])
async def test_what_has_not_ended_is_not_forgotten_with_what_has(
    orphans: Orphans, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    _give_up_at_once(monkeypatch)
    handle = {"server": "sc://127.0.0.1:9", "session_id": str(uuid.uuid4())}
    away: dict[str, Any] = {"handle": handle}
    await orphans.runs(**({} if ended == "first" else away))
    await orphans.runs(epoch=Epoch(2), **(away if ended == "first" else {}))
    await orphans.topics.remove("a", by="me")
    status, out, _ = await orphans("--end", "--allow-spark-server", handle["server"])
    assert (status, out.count(": ended"), out.count("may still run")) == (1, 1, 1)
    status, out, _ = await orphans()
    assert (status, out.strip()) == (1, "a:0 on sc://127.0.0.1:9: its job was removed")


def _give_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is time for one try each."""
    monkeypatch.setattr(ending, "_STOP_S", DEADLINE_S)
    monkeypatch.setattr(session_ending, "_AGAIN_S", DEADLINE_S)


async def test_a_query_that_its_worker_cannot_end_is_listed_and_ended(orphans: Orphans) -> None:
    await orphans.has_worker()
    query = await orphans.runs(state=TaskState.PENDING, error=TaskFailure.of("the connection leads elsewhere by now"))
    status, out, _ = await orphans()
    assert (status, "its worker w1 can't end it: the connection leads elsewhere" in out) == (1, True)
    assert (await orphans("--end"))[0] == 0
    assert (query.active, orphans.state()) == (False, TaskState.STOPPED)


async def test_a_server_that_is_away_is_not_asked_about_each_of_many_queries(
    orphans: Orphans, monkeypatch: pytest.MonkeyPatch
) -> None:
    _give_up_at_once(monkeypatch)
    for index in range(200):
        await orphans.runs(index)
    await orphans.server.stop()
    status, out, _ = await orphans("--end")
    assert (status, out.count("may still run")) == (1, 200)
    assert out.count("not tried, because others on this server could not be ended") == 200 - ending._AT_ONCE


async def test_one_query_that_cannot_be_ended_keeps_no_other_from_its_end(orphans: Orphans) -> None:
    queries = [await orphans.runs(index) for index in range(2 * ending._AT_ONCE)]
    orphans.server.refuses_once["interrupt"] = grpc.StatusCode.PERMISSION_DENIED, "not this one"
    status, out, _ = await orphans("--end")
    assert (status, out.count("may still run"), out.count(": ended")) == (1, 1, len(queries) - 1)
    assert [query.active for query in queries].count(True) == 1


async def test_many_queries_are_ended_over_few_connections(orphans: Orphans) -> None:
    queries = [await orphans.runs(index) for index in range(100)]
    assert (await orphans("--end"))[0] == 0
    assert not any(query.active for query in queries)
    assert len(orphans.server.peers) <= 100 / ending._AT_ONCE + 1


# ---- which servers are called


async def test_only_servers_that_the_user_has_named_are_called(orphans: Orphans) -> None:
    """Handles come from a topic: whoever may write there could have this machine call any other."""
    query, orphans.allowed = await orphans.runs(), False
    status, out, _ = await orphans("--end")
    assert (status, query.active, orphans.server.asked.total(), orphans.server.peers) == (1, True, 0, set())
    assert f"{orphans.url} is not called" in out
    assert "allow it by --allow-spark-server URL" in out
    assert (await orphans("--end", "--server", orphans.url))[0] == 0
    assert not query.active


# ---- the token


async def test_only_the_named_server_gets_the_token(orphans: Orphans, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles come from a topic. Nobody who can write there may get an administrator's token."""
    monkeypatch.setenv(TOKEN_ENV, SECRET)
    await orphans.runs()
    orphans.server.refusal = None
    await orphans("--end", "--server", "sc://spark.example:15002")
    assert SECRET not in str(orphans.server.metadata)
    assert orphans.server.metadata


async def test_a_user_who_is_refused_learns_how_to_name_the_server(
    orphans: Orphans, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grpc

    monkeypatch.setenv(TOKEN_ENV, SECRET)
    await orphans.runs()
    orphans.server.refusal = grpc.StatusCode.UNAUTHENTICATED, "no token"
    status, out, err = await orphans("--end")
    assert (status, SECRET in out + err) == (1, False)
    assert "--server URL" in err


@pytest.mark.parametrize("url", ["spark:15002", "sc://host/;token=abc"])
async def test_an_invalid_server_url_is_refused(orphans: Orphans, url: str) -> None:
    with pytest.raises(SystemExit):
        await orphans("--end", "--server", url)


# ---- queries that are declared gone


async def test_a_watched_query_cannot_be_forgotten(orphans: Orphans) -> None:
    await orphans.has_worker(TaskId("a", 0))
    query = await orphans.runs()
    status, _, err = await orphans("--forget", "a:0")
    assert (status, orphans.state(), query.active) == (1, TaskState.RUNNING, True)
    assert "worker w1 watches a:0, and its server answers" in err


async def test_a_query_whose_worker_waits_for_the_server_can_be_forgotten(orphans: Orphans) -> None:
    await orphans.has_worker(TaskId("a", 0), condition="waiting for its server")
    await orphans.runs()
    assert await orphans("--forget", "a:0") == (0, "a:0: recorded as ended\n", "")
    assert orphans.state() is TaskState.STOPPED


async def test_an_unknown_query_cannot_be_forgotten(orphans: Orphans) -> None:
    status, _, err = await orphans("--forget", "b:7")
    assert (status, "task b:7 has no detached query" in err) == (1, True)


async def test_a_query_whose_handle_cannot_be_read_can_be_forgotten(orphans: Orphans) -> None:
    await orphans.runs(handle={"of": "a later release"})
    status, out, _ = await orphans("--end")
    assert (status, "may still run" in out) == (1, True)
    assert (await orphans("--forget", "a:0"))[0] == 0
    assert (await orphans())[0] == 0
