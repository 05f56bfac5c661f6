"""In how many shards groups are served, and whether that is still so."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from airflow_provider.shards import handled
from airflow_provider.shards.errors import ShardError
from airflow_provider.shards.handled import Note, check_shards, read_note
from airflow_provider.topics.errors import TopicError


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


def check(monkeypatch: pytest.MonkeyPatch, shards: int, committed: Committed) -> None:
    monkeypatch.setattr(handled, "make_client", lambda _kind, _config: committed)
    check_shards({}, shards)


@pytest.mark.parametrize("metadata", [(), ("40",), ("40 4", "7 4", None), ("40", "7 4")])
def test_as_many_shards_as_before_are_served(metadata: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where none were noted: by an earlier version, or in a new cluster."""
    check(monkeypatch, 4, Committed(*metadata))


@pytest.mark.parametrize("metadata", [("40 4", "7 4"), (None, "7 4"), ("40", "7 4")])
def test_more_shards_than_before_are_refused_with_what_to_do(
    metadata: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TopicError, match=r"have 8 partitions, but groups are served in 4 shards.*Delete both topics"):
        check(monkeypatch, 8, Committed(*metadata))


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
