"""The bridges of a process end with it, and so does the thread that drives them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from waiting import DEADLINE_S

from airflow_provider.group.declarative.bridge import kafka_bridges
from airflow_provider.group.declarative.coordinator.events import BridgeClaims
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord
from airflow_provider.integration.memberships.bridging import bridges_of
from airflow_provider.kafka.settings import KafkaSettings

KAFKA = KafkaSettings(conn_id="k", values=(("bootstrap.servers", "nowhere:9"),))


class Cluster:
    """Never answers; notes who is connected."""

    def __init__(self) -> None:
        self.opened = threading.Semaphore(0)
        self.open = 0

    @asynccontextmanager
    async def transport(self, settings: KafkaSettings) -> AsyncIterator[None]:
        self.open += 1
        self.opened.release()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            await asyncio.sleep(0)
            self.open -= 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(kafka_bridges, "shared_transport", cluster.transport)
    return cluster


def bridging_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "cospark-bridges"]


def test_bridges_that_nobody_has_closed_end_with_the_process(cluster: Cluster) -> None:
    words: list[BridgeWord] = []
    with bridges_of(KAFKA, CoordinatorSettings(migration=MigrationPolicy.BIDIRECTIONAL)) as bridges:
        assert bridges is not None
        for group in ("etl", "ml"):
            bridges.open(group, BridgeClaims(), words.append)
            assert cluster.opened.acquire(timeout=DEADLINE_S)
        assert cluster.open == 2
        bridges.close("etl", words.append)
        assert cluster.open == 1
        assert bridging_threads()
    assert cluster.open == 0
    assert bridging_threads() == []
    assert words == [], "they stay members: whoever coordinates their groups next takes them over"
    bridges.open("late", BridgeClaims(), words.append)
    bridges.close("late", words.append)
    assert bridging_threads() == []


def test_who_serves_a_shard_again_is_not_in_the_way_of_who_is_slow_to_end(cluster: Cluster) -> None:
    """Two threads have one shard then, and the group one bridge."""
    before: list[BridgeWord] = []
    now: list[BridgeWord] = []
    with bridges_of(KAFKA, CoordinatorSettings(migration=MigrationPolicy.BIDIRECTIONAL)) as bridges:
        assert bridges is not None
        bridges.open("etl", BridgeClaims(), before.append)
        assert cluster.opened.acquire(timeout=DEADLINE_S)
        bridges.open("etl", BridgeClaims(), now.append)
        assert cluster.opened.acquire(timeout=DEADLINE_S), "by who serves it now"
        assert cluster.open == 1
        bridges.close("etl", before.append)
        assert cluster.open == 1
        bridges.open("etl", BridgeClaims(), now.append)
        bridges.close("etl", now.append)
        assert cluster.open == 0
        assert not cluster.opened.acquire(blocking=False)


def test_a_coordinator_that_migrates_nothing_has_none() -> None:
    with bridges_of(KAFKA, CoordinatorSettings()) as bridges:
        assert bridges is None
