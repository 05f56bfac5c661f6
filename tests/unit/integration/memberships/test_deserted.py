"""A group counts as deserted only if that is known: who takes it for that ends what its workers watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from busy_group import coordinator
from operator_bench import SETTINGS
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands.deserted import seems_deserted
from airflow_provider.integration.memberships import deserted
from airflow_provider.integration.memberships.deserted import has_members, status_of_those_left
from airflow_provider.kafka.group_requests.messages import GroupDescription
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import RightsError, TopicError
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import RemoteProtocolError

NO_RIGHT = RightsError((Right("records", Operation.READ),), "anna")


class Cluster:
    """What a coordinator and the records of declarative groups say of the group g."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.described = coordinator()
        self.declared: Mapping[str, SimpleNamespace] | Exception = {}
        monkeypatch.setattr(deserted, "shared_transport", self._transport)
        monkeypatch.setattr(deserted, "read_groups", self._read_groups)

    @asynccontextmanager
    async def _transport(self, _settings: KafkaSettings) -> AsyncIterator[Cluster]:
        yield self

    async def describe(self, _groups: list[str]) -> list[GroupDescription]:
        return [self.described]

    def _read_groups(
        self, _settings: KafkaSettings, *, timeout_s: float, only: str | None
    ) -> Mapping[str, SimpleNamespace]:
        assert (timeout_s > 0, only) == (True, "g")
        if isinstance(self.declared, Exception):
            raise self.declared
        return self.declared


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


async def test_a_group_without_members_is_deserted(cluster: Cluster) -> None:
    assert await has_members("g", SETTINGS) is False
    cluster.declared = {"g": SimpleNamespace(members={})}
    assert await has_members("g", SETTINGS) is False
    cluster.declared = {"g": SimpleNamespace(members={"m": None})}
    assert await has_members("g", SETTINGS), "a declarative group"
    cluster.declared, cluster.described = {}, coordinator("w1")
    assert await has_members("g", SETTINGS)


async def test_a_coordinator_that_can_not_tell_has_said_nothing(cluster: Cluster) -> None:
    seen = MemoryTopics()
    cluster.described = replace(coordinator(), error=KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert await has_members("g", SETTINGS) is None
    assert not await seems_deserted("g", SETTINGS)
    assert await status_of_those_left("g", seen, SETTINGS) is seen.status
    cluster.described = coordinator("w1")
    assert (await status_of_those_left("g", seen, SETTINGS)).peopled
    cluster.described = coordinator()
    assert (await status_of_those_left("g", seen, SETTINGS)).deserted


async def test_without_the_right_to_look_it_is_not_known(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.declared = NO_RIGHT
    with pytest.raises(RightsError):
        await has_members("g", SETTINGS)
    assert await seems_deserted("g", SETTINGS), "who only looks is told"
    assert str(NO_RIGHT) in capsys.readouterr().err
    cluster.declared = RemoteProtocolError("cut off")
    with pytest.raises(TopicError, match="cut off"):
        await has_members("g", SETTINGS)
