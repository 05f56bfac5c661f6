"""The url of a bridge, and what is said of one that is not there."""

from __future__ import annotations

import logging

import pytest
from waiting import eventually

from airflow_provider.group.declarative.bridge import kafka_bridges
from airflow_provider.group.declarative.bridge.kafka_bridges import KafkaBridges
from airflow_provider.group.declarative.coordinator.events import BridgeClaims, BridgeLost, BridgeSaid
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord, PutWord
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.values.group_protocol.bridge import bridge_url, stands_for
from airflow_provider.values.model import NO_TASKS, Epoch


@pytest.mark.parametrize("workers", [1, 2, 999_999])
def test_it_says_for_how_many_workers_it_stands(workers: int) -> None:
    assert stands_for(bridge_url(workers, Epoch(7))) == workers


@pytest.mark.parametrize(
    "url", ["", "bridge", "bridge:0:1", "bridge:-2:1", "bridge:1000000000:1", "https://a/bridge:2:1"]
)
def test_whatever_else_it_says_it_stands_for_one(url: str) -> None:
    assert stands_for(url) == 1


class Failing(KafkaBridges):
    """They reach their classic groups at the third try."""

    tries = 0

    async def _drive(self, group: str, claims: BridgeClaims, opened: kafka_bridges._Open) -> str:
        self.tries += 1
        if self.tries < 3:
            raise TopicError("its topics are gone")
        said = BridgeSaid(now_ms=0, group_id=group, epoch=Epoch(1), tasks=NO_TASKS, lease_until_ms=1)
        self._say(group, said, opened.put)
        self._say(group, said, opened.put)
        return ""


async def test_that_a_group_has_no_bridge_is_said_once_and_once_that_it_has(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(kafka_bridges, "_REST_S", 0.0)
    bridges = Failing(KafkaSettings.from_extra({"bootstrap.servers": "b:9092"}, conn_id="k"), CoordinatorSettings())
    words: list[BridgeWord] = []
    put: PutWord = words.append
    for lost in (1, 2, 3):
        bridges._open("g", BridgeClaims(), put)
        await eventually(lambda: sum(isinstance(word, BridgeLost) for word in words) == lost)  # noqa: B023
    no, again = (record.message for record in caplog.records)
    assert no == "group g has no bridge to the classic protocol: its topics are gone; trying again"
    assert again.startswith("group g has a bridge to the classic protocol again, after ")
