"""A shard whose records are gone: who was in its groups stops, and nobody is given the same before that is certain."""

from __future__ import annotations

import pytest
from coordinated import GROUP, heartbeat, whole
from shard_log import Bridges, MemoryLog, raw

from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.settings import (
    SESSION_TIMEOUT,
    CoordinatorSettings,
    MigrationPolicy,
)
from airflow_provider.group.declarative.protocol.sharding import Layout
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConnectGroupAlterConfigsRequest,
)
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.group.declarative.server.migration.crossing import Crossing
from airflow_provider.group.declarative.server.migration.joining import Look
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Serving
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId

SESSION_MS = 10_000
W1 = MemberId("w1")


class Forgotten:
    """A shard that is served, and whose records are gone.

    :ivar now: milliseconds
    :ivar looked: for which groups somebody looks
    """

    def __init__(self, migration: MigrationPolicy = MigrationPolicy.DISABLED, granted_ms: int = 0) -> None:
        self.now = 1_000
        self.looked: list[str] = []
        self.log = MemoryLog()
        self.log.forgotten = True
        self.log.granted_ms = granted_ms
        self.bridges = Bridges()
        machine = Coordinator(CoordinatorSettings(session_timeout_ms=SESSION_MS, migration=migration))
        bridged = migration is MigrationPolicy.BIDIRECTIONAL
        look: Look | None = None if bridged else self.looked.append
        self.serving = Serving(
            0,
            Layout(shards=1, replies=2),
            machine,
            self.log,
            held=Held(),
            faulty=Faulty(),
            oversized=Oversized(),
            now_ms=lambda: self.now,
            look=look,
            crossing=Crossing(machine, self.bridges, lambda _: None) if bridged else None,
        )
        self.serving.load()

    def beat(self, number: int, epoch: int) -> KafkaErrorCode | None:
        """:returns: what the answer says; None: there is none"""
        body = heartbeat(W1, epoch, (), **whole())
        self.serving.handle([raw(number, body=body)], {})
        return KafkaErrorCode(self.log.answers[number][0]) if number in self.log.answers else None


@pytest.fixture
def shard() -> Forgotten:
    return Forgotten()


def test_who_was_a_member_hears_immediately_that_it_is_none(shard: Forgotten) -> None:
    assert shard.beat(1, 4) is KafkaErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_joins_before_the_longest_session_is_over_that_a_group_had() -> None:
    shard = Forgotten(granted_ms=3 * SESSION_MS)
    shard.now += 3 * SESSION_MS - 1
    assert shard.beat(1, 0) is KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shard.now += 1
    assert shard.beat(2, 0) is None


def test_the_longest_session_is_noted_as_soon_as_it_is_granted() -> None:
    """Only what was noted is known when the records are gone."""
    shard = Forgotten()
    shard.now += SESSION_MS
    assert shard.beat(1, 0) is None
    longer = AlterableConfig(name=SESSION_TIMEOUT, value=str(6 * SESSION_MS))
    shard.serving.handle([raw(2, body=ConnectGroupAlterConfigsRequest(group_id=GROUP, configs=(longer,)))], {})
    assert shard.log.granted_ms == 6 * SESSION_MS


def test_nobody_joins_before_the_session_is_over_that_others_may_live_on(shard: Forgotten) -> None:
    assert shard.beat(1, 0) is KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shard.now += SESSION_MS - 1
    assert shard.beat(2, 0) is KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not shard.looked
    assert not shard.log.records
    shard.now += 1
    assert shard.beat(3, 0) is None
    assert shard.looked == [GROUP]
    shard.serving.handle([], {}, [Seen(GROUP)])
    assert shard.log.answers[3][0] in (KafkaErrorCode.NONE, KafkaErrorCode.COMPUTE_ASSIGNMENT)


def test_nothing_is_recorded_meanwhile(shard: Forgotten) -> None:
    """The next coordinator must see that the records are gone."""
    shard.serving.handle([raw(1, body=ConnectGroupAlterConfigsRequest(group_id=GROUP, configs=()))], {})
    assert shard.log.answers[1][0] == KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not shard.log.records


def test_the_bridge_is_not_taken_over_by_one_that_claims_nothing() -> None:
    shard = Forgotten(MigrationPolicy.BIDIRECTIONAL)
    assert shard.beat(1, 4) is KafkaErrorCode.UNKNOWN_MEMBER_ID
    assert shard.beat(2, 0) is KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not shard.bridges.opened
    shard.now += SESSION_MS
    assert shard.beat(3, 0) is None
    assert [group for group, _ in shard.bridges.opened] == [GROUP]


def test_what_has_happened_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    shard = Forgotten()
    shard.beat(1, 4)
    shard.beat(2, 0)
    (line,) = [record.message for record in caplog.records]
    assert "the topic '__worker_offsets' was deleted, or lost by the brokers" in line
    assert "join again in 10 s" in line
