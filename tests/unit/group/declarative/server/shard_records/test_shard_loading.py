"""How far the records of a shard are read, and why not to their end."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records import loading


class SilentConsumer:
    """Of a broker that says nothing any more."""

    def consume(self, _most: int, _timeout_s: float) -> list[Message]:
        return []


@pytest.mark.parametrize(
    ("given_up", "why"),
    [
        (True, "^shard 2 was revoked before it was loaded$"),
        (False, "^the records of shard 2 can't be read: no broker answers$"),
    ],
)
def test_who_gives_up_does_not_blame_the_brokers(monkeypatch: pytest.MonkeyPatch, given_up: bool, why: str) -> None:
    monkeypatch.setattr(loading, "_ANSWER_S", 0.0)
    consumer = cast("Consumer", cast("Any", SilentConsumer()))
    with pytest.raises(ShardError, match=why):
        list(loading._up_to_the_end(consumer, 2, 3, lambda: given_up))


class BusyConsumer:
    """Of a shard in which there is always more: three records are committed as it begins."""

    def __init__(self) -> None:
        self._offsets = count()

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 3

    def assign(self, partitions: list[TopicPartition]) -> None: ...

    def consume(self, _most: int, _timeout_s: float) -> list[Stored]:
        return [Stored(next(self._offsets)) for _ in range(2)]

    def close(self) -> None: ...


class Stored:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None: ...

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"k"

    value = key


def test_who_looks_on_reads_what_was_committed_then_however_much_is_written_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "make_client", lambda _make, _config: BusyConsumer())
    read = loading.read_moment({}, 2, given_up=lambda: False)
    assert [offset for _, _, offset in read] == [0, 1, 2]
