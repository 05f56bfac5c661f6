"""What brokers and librdkafka say about one partition tells nothing of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from mock_brokers import LIST_OFFSETS, BrokerError, MockBrokers, mock_brokers
from waiting import DEADLINE_S

from airflow_provider.kafka.topics.administration import partition_ends
from airflow_provider.kafka.topics.administration.partition_ends import End, LatestOffsets

THERE, DELETED = ("a.jobs", 0), ("b.jobs", 0)


class Consumer:
    """As librdkafka's: it remembers a topic that was deleted since, and fails with what the broker says of it."""

    deleted = False

    def __init__(self, _config: Mapping[str, Any]) -> None:
        self._remembers = not Consumer.deleted

    def offsets_for_times(self, asked: Sequence[TopicPartition], _timeout: float) -> list[TopicPartition]:
        found = [each for each in asked if not Consumer.deleted or each.topic != DELETED[0]]
        if found != asked and self._remembers:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        if not found:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return [TopicPartition(each.topic, each.partition, 7) for each in asked]

    def close(self) -> None: ...


def test_a_topic_that_was_deleted_hides_no_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of many groups' topics are asked for together."""
    monkeypatch.setattr(partition_ends, "Consumer", Consumer)
    monkeypatch.setattr(Consumer, "deleted", False)
    offsets = LatestOffsets({})
    assert told(offsets.ask((THERE, DELETED), timeout_s=1)) == {THERE: 7, DELETED: 7}
    monkeypatch.setattr(Consumer, "deleted", True)
    ends = told(offsets.ask((THERE, DELETED), timeout_s=1))
    assert ends == {THERE: 7, DELETED: KafkaError._NOENT}, "whether it is missing or has no leader is not known here"


def told(ends: Mapping[partition_ends.Partition, End]) -> dict[partition_ends.Partition, int]:
    """Ends, and the codes of errors."""
    return {each: end.code() if isinstance(end, KafkaError) else end for each, end in ends.items()}


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    with mock_brokers() as cluster:
        cluster.create(THERE[0], 1)
        cluster.create(DELETED[0], 1)
        yield cluster


def test_a_leader_that_is_none_any_more_is_looked_for_again(brokers: MockBrokers) -> None:
    with closing(LatestOffsets({"bootstrap.servers": brokers.servers})) as offsets:
        for _ in range(2):
            assert told(offsets.ask((THERE, DELETED), timeout_s=DEADLINE_S)) == {THERE: 0, DELETED: 0}
            brokers.fail(LIST_OFFSETS, BrokerError.NOT_LEADER_FOR_PARTITION)


def test_it_asks_again_after_it_was_closed(brokers: MockBrokers) -> None:
    offsets = LatestOffsets({"bootstrap.servers": brokers.servers})
    for _ in range(2):
        assert told(offsets.ask((THERE,), timeout_s=DEADLINE_S)) == {THERE: 0}
        offsets.close()
