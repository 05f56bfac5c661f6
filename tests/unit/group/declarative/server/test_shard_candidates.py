"""One coordinator for all memberships of a process, and the command that is nothing else."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from airflow_provider.cli.main import main
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.server import candidates
from airflow_provider.group.declarative.server.migration.bridges import Bridges
from airflow_provider.group.declarative.server.server import ShardObserver
from airflow_provider.kafka.settings import KafkaSettings

SETTINGS = CoordinatorSettings()


def cluster(name: str) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": f"{name}:9092"}, conn_id=name)


class Server:
    """A server that says what is done with it."""

    made: list[Server]

    def __init__(
        self,
        settings: KafkaSettings,
        coordinator: CoordinatorSettings,
        bridges: Bridges | None,
        observer: ShardObserver | None,
    ) -> None:
        self.said: list[str] = []
        self.made.append(self)

    def start(self) -> None:
        self.said.append("start")

    def close(self) -> None:
        self.said.append("close")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """The servers that were made."""
    Server.made = []
    monkeypatch.setattr(candidates, "shard_server", Server)
    return Server.made


async def test_a_thousand_memberships_share_one(made: list[Server]) -> None:
    async with contextlib.AsyncExitStack() as all_but_one:
        for _ in range(999):
            await all_but_one.enter_async_context(candidates.candidate(cluster("one"), SETTINGS))
        async with candidates.candidate(cluster("one"), SETTINGS):
            pass
        assert [server.said for server in made] == [["start"]]
    assert [server.said for server in made] == [["start", "close"]]


async def test_each_cluster_has_its_own(made: list[Server]) -> None:
    async with candidates.candidate(cluster("one"), SETTINGS), candidates.candidate(cluster("two"), SETTINGS):
        assert len(made) == 2
    assert [server.said for server in made] == [["start", "close"]] * 2


async def test_one_that_is_cancelled_gives_its_place_back(made: list[Server]) -> None:
    async def hold() -> None:
        async with candidates.candidate(cluster("one"), SETTINGS):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert made[0].said == ["start", "close"]


async def test_a_forked_process_has_none(made: list[Server]) -> None:
    async with candidates.candidate(cluster("one"), SETTINGS):
        candidates._open.start_over()
        async with candidates.candidate(cluster("one"), SETTINGS):
            assert len(made) == 2
        assert made[1].said == ["start", "close"]
    assert made[0].said == ["start"]


@pytest.mark.parametrize("heartbeat_ms", ["0", "60000"])
def test_a_heartbeat_interval_must_fit_into_a_session(capsys: pytest.CaptureFixture[str], heartbeat_ms: str) -> None:
    options = ["--bootstrap-servers", "broker:9092", "--heartbeat-interval-ms", heartbeat_ms]
    assert main(["coordinator", *options]) == 2
    assert f"--heartbeat-interval-ms {heartbeat_ms}: must be" in capsys.readouterr().err
