"""Why the records of a shard are not read to their end."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from airflow_provider.shards import loading
from airflow_provider.shards.errors import ShardError


class SilentConsumer:
    """Of a broker that says nothing any more."""

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 3

    def assign(self, partitions: list[TopicPartition]) -> None: ...

    def consume(self, _most: int, _timeout_s: float) -> list[Message]:
        return []


@pytest.mark.parametrize(
    ("given_up", "why"),
    [
        (True, "^shard 2 was given away before it was loaded$"),
        (False, "^the records of shard 2 can't be read: no broker answers$"),
    ],
)
def test_who_gives_up_does_not_blame_the_brokers(monkeypatch: pytest.MonkeyPatch, given_up: bool, why: str) -> None:
    monkeypatch.setattr(loading, "_ANSWER_S", 0.0)
    consumer = cast("Consumer", cast("Any", SilentConsumer()))
    with pytest.raises(ShardError, match=why):
        list(loading._up_to_the_end(consumer, 2, lambda: given_up))
