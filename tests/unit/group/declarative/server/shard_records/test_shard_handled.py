"""In how many shards groups are served, and whether that is still so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.group.declarative.protocol.sharding import partition_of
from airflow_provider.group.declarative.protocol.wire.record_values import (
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupMetadataValue,
)
from airflow_provider.group.declarative.protocol.wire.records import Record, encode_record
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records import handled
from airflow_provider.group.declarative.server.shard_records.handled import Note, check_shards, read_note
from airflow_provider.group.declarative.server.shard_records.loading import Stored
from airflow_provider.kafka.topics.errors import LastingError

NONE: Final[Mapping[int, Sequence[Stored]]] = MappingProxyType({})


class Committed:
    """A consumer that knows what was committed for each partition."""

    def __init__(self, *metadata: str | None, error: KafkaError | None = None) -> None:
        self._metadata = metadata
        self._error = error

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self._error is not None:
            raise KafkaException(self._error)
        noted = dict(enumerate(self._metadata))
        return [
            TopicPartition(each.topic, each.partition, 5, metadata=noted.get(each.partition) or "")
            for each in partitions
        ]

    def poll(self, timeout: float) -> None: ...

    def close(self) -> None: ...


def check(
    monkeypatch: pytest.MonkeyPatch, shards: int, committed: Committed, stored: Mapping[int, Sequence[Stored]] = NONE
) -> None:
    def read_moment(_config: Any, shard: int, *, given_up: Callable[[], bool]) -> Iterator[Stored]:
        assert not given_up()
        yield from stored.get(shard, ())

    monkeypatch.setattr(handled, "make_client", lambda _kind, _config: committed)
    monkeypatch.setattr(handled, "read_moment", read_moment)
    check_shards({}, shards)


def stored_of(group: str, offset: int, *, deleted: bool = False) -> Stored:
    key, value = encode_record(
        Record(ConnectWorkerGroupMetadataKey(group), ConnectWorkerGroupMetadataValue(epoch=GroupEpoch(1)))
    )
    return key, None if deleted else value, offset


@pytest.mark.parametrize("metadata", [(), ("40",), ("40 4", "7 4", None), ("40", "7 4")])
def test_as_many_shards_as_before_are_served(metadata: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where none were noted: by an earlier version, or in a new cluster."""
    check(monkeypatch, 4, Committed(*metadata))


@pytest.mark.parametrize("metadata", [("40 4", "7 4"), (None, "7 4"), ("40", "7 4")])
def test_more_shards_than_before_are_refused_with_what_to_do(
    metadata: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LastingError, match=r"have 8 partitions, but groups are served in 4 shards.*Delete both topics"):
        check(monkeypatch, 8, Committed(*metadata))


@pytest.mark.parametrize("metadata", [(), ("40",)], ids=["forgotten", "earlier version"])
def test_where_brokers_have_forgotten_the_number_of_shards_the_records_tell_it(
    metadata: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers forget what was committed a week after the last coordinator has left."""
    groups = [f"g{number}" for number in range(8)]
    stored: dict[int, list[Stored]] = {shard: [(b"?", b"?", 9)] for shard in range(4)}
    for offset, group in enumerate(groups):
        stored[partition_of(group, 4)].append(stored_of(group, offset))
    check(monkeypatch, 4, Committed(*metadata), stored)
    with pytest.raises(
        LastingError, match=r"8 partitions, but group 'g\d' was served in another number.*Delete both topics"
    ):
        check(monkeypatch, 8, Committed(*metadata), stored)
    deleted = {
        shard: [stored_of(group, 0, deleted=True) for group in groups if partition_of(group, 4) == shard]
        for shard in range(4)
    }
    check(monkeypatch, 8, Committed(*metadata), deleted)


def test_nothing_is_served_before_the_number_of_shards_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ShardError, match="how far shard 0, 1 is handled is not known"):
        check(monkeypatch, 2, Committed(error=KafkaError(KafkaError._TIMED_OUT)))


@pytest.mark.parametrize(
    ("metadata", "note"),
    [
        ("40 4 60000", Note(40, 4, 60_000)),
        ("40 4", Note(40, 4)),
        ("40", Note(40)),
        (None, Note(0)),
        ("", Note(0)),
        ("of somebody else", Note(0)),
        ("40 4 of a later version", Note(0)),
        ("40 4 60000 9", Note(40, 4, 60_000)),
    ],
)
def test_notes_of_other_versions_are_read(metadata: str | None, note: Note) -> None:
    assert read_note(metadata) == note
