"""The topics of declarative groups are deleted while workers run that coordinate their group themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from fleet import SHORT_SESSION, Fleet, overlaps
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind

OPTIONS = ("--runner", "noop", "--slots", "20", "--max-delay-ms", "0", "--group-protocol", "connect")
WORKERS = ("w1", "w2")


class Topics:
    """The topics of a broker, as an administrator sees them."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, **COMMON})

    def delete(self, topics: Sequence[str]) -> None:
        for deleted in self._admin.delete_topics([*topics]).values():
            deleted.result(DEADLINE_S)

    def policy_of(self, topic: str) -> str | None:
        """None if there is no such topic."""
        (described,) = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        try:
            return str(described.result(DEADLINE_S)["cleanup.policy"].value)
        except KafkaException:
            return None


@pytest.fixture
def topics_there(spoilt_broker: LocalBroker) -> Topics:
    """Not of the shared broker: other tests have declarative groups there."""
    return Topics(spoilt_broker.bootstrap_servers)


async def started(group: Fleet) -> None:
    await group.submit("streams", tasks=4, kind=TaskKind.STREAMING)
    for worker in WORKERS:
        group.start(worker)
    await group.balanced(*WORKERS)


def assert_well(group: Fleet, topic: str) -> None:
    for worker in WORKERS:
        log = group.log_of(worker)
        assert group.runs(worker), log
        assert "Traceback" not in log, log
        assert f"'{topic}'" in log, log


@pytest.mark.thorough
@pytest.mark.parametrize("topic", [REQUESTS_TOPIC, REPLIES_TOPIC])
async def test_nothing_stops_while_the_topic_of_requests_or_replies_is_recreated(
    spoilt_broker: LocalBroker, topics_there: Topics, group_id: str, tmp_path: Path, topic: str
) -> None:
    async with Fleet(spoilt_broker.bootstrap_servers, group_id, tmp_path, *OPTIONS) as group:
        await started(group)
        stops = await group.stops()
        topics_there.delete([topic])
        await asyncio.to_thread(wait_until, lambda: topics_there.policy_of(topic) == "delete", "it is recreated")
        group.start("w3")
        await group.balanced(*WORKERS, "w3")
        moved = await group.stops() - stops
        assert len(moved) == 1, "only the task that w3 was given"
        assert not overlaps(await group.steps())
        assert_well(group, topic)


@pytest.mark.parametrize(
    "topics",
    [
        pytest.param((RECORDS_TOPIC,), marks=pytest.mark.thorough),
        (RECORDS_TOPIC, REQUESTS_TOPIC, REPLIES_TOPIC),
    ],
)
async def test_workers_join_anew_when_the_records_are_gone_and_nothing_runs_twice(
    spoilt_broker: LocalBroker, topics_there: Topics, group_id: str, tmp_path: Path, topics: Sequence[str]
) -> None:
    async with Fleet(spoilt_broker.bootstrap_servers, group_id, tmp_path, *OPTIONS, *SHORT_SESSION) as group:
        await started(group)
        last = group.topics.status.group
        assert last is not None
        topics_there.delete(topics)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and status.group.epoch > last.epoch, "the epoch grows"
        )
        await group.balanced(*WORKERS)
        assert topics_there.policy_of(RECORDS_TOPIC) == "compact"
        assert not overlaps(await group.steps())
        assert_well(group, RECORDS_TOPIC)
