"""What the thread of a shard asks the brokers, when an answer is out of date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records import kafka_log
from airflow_provider.group.declarative.server.shard_records.handled import Handled, Note
from airflow_provider.group.declarative.server.shard_records.kafka_log import KafkaShardLog
from airflow_provider.group.declarative.server.shard_records.loading import Ended, Records


def log_with(monkeypatch: pytest.MonkeyPatch, producer: object = None) -> KafkaShardLog:
    monkeypatch.setattr(kafka_log, "ShardProducer", lambda config, shard, shards: producer)
    return KafkaShardLog({}, 1, 2, group=lambda: None, renewed=False)


class Producer:
    """Notes from where on it shall write."""

    def __init__(self, config: Mapping[str, Any], shard: int, shards: int) -> None:
        self.went_on: tuple[int, int] | None = None

    def begin(self) -> None: ...

    def go_on(self, end: int, recorded_to: int) -> None:
        self.went_on = end, recorded_to


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "found", "noted", "renewed", "forgotten"),
    [
        (0, 0, 0, False, False),  # of a new cluster
        (40, 9, 39, False, False),
        (40, 9, 40, True, False),  # written since
        (4, 2, 40, False, False),  # the same, and no request was handled since
        (0, 0, 40, False, True),
        (0, 0, 0, True, True),  # its requests are gone, too
        (4, 0, 40, False, True),  # what was begun in the new topic was aborted
        (4, 0, 3, False, True),
        (4, 0, 0, True, True),
    ],
)
def test_records_that_there_were_are_missed(
    end: int, found: int, noted: int, renewed: bool, forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_records(config: Mapping[str, Any], shard: int, *, given_up: Callable[[], bool]) -> Records:
        for offset in range(found):
            yield b"key", b"value", offset
        return Ended(end, found)

    monkeypatch.setattr(kafka_log, "ShardProducer", Producer)
    monkeypatch.setattr(kafka_log, "read_records", read_records)
    monkeypatch.setattr(kafka_log, "read_handled", lambda config, shard: Handled(9, Note(noted, 2)))
    shard_log = KafkaShardLog({}, 1, 2, group=lambda: None, renewed=renewed)
    assert len(list(shard_log.load())) == found
    assert shard_log.forgotten is forgotten
    assert isinstance(shard_log._producer, Producer)
    assert shard_log._producer.went_on == (end, end if found else noted or int(forgotten))


def test_how_far_it_is_handled_is_asked_again_without_loading_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage that ends within members' sessions is to cost them nothing."""
    answers: list[ShardError | Handled] = [*(ShardError("Timed out") for _ in range(2)), Handled(9, Note(40, 2))]

    def read_handled(config: Mapping[str, Any], shard: int) -> Handled:
        answer = answers.pop(0)
        if isinstance(answer, ShardError):
            raise answer
        return answer

    monkeypatch.setattr(kafka_log, "_AGAIN_S", 0.0)
    monkeypatch.setattr(kafka_log, "read_handled", read_handled)
    shard_log = log_with(monkeypatch)
    monkeypatch.setattr(shard_log, "end", lambda: 9)
    assert shard_log.handled_to() == 9


def test_what_was_handled_of_a_topic_that_is_gone_counts_for_nothing_in_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_log, "read_handled", lambda config, shard: Handled(9, Note(40, 2)))
    shard_log = log_with(monkeypatch)
    monkeypatch.setattr(shard_log, "end", lambda: 8)
    assert shard_log.handled_to() == 0


@pytest.mark.parametrize("given_up", [True, False])
def test_it_is_not_asked_for_ever(given_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def read_handled(config: Mapping[str, Any], shard: int) -> Handled:
        asked.append(1)
        raise ShardError("Timed out")

    if not given_up:
        monkeypatch.setattr(kafka_log, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(kafka_log, "read_handled", read_handled)
    shard_log = log_with(monkeypatch, SimpleNamespace(give_up=lambda: None))
    if given_up:
        shard_log.give_up()
    with pytest.raises(ShardError, match="Timed out"):
        shard_log.handled_to()
    assert len(asked) == 1


def test_the_session_of_those_whose_records_are_gone_is_noted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator may end before it has waited for as long; then the next one waits."""

    def no_records(config: Mapping[str, Any], shard: int, *, given_up: Callable[[], bool]) -> Records:
        yield from ()
        return Ended(0, 0)

    granted: list[int] = []
    producer = SimpleNamespace(begin=lambda: None, go_on=lambda *_: None, grants=granted.append)
    shard_log = log_with(monkeypatch, producer)
    monkeypatch.setattr(kafka_log, "read_records", no_records)
    monkeypatch.setattr(kafka_log, "read_handled", lambda config, shard: Handled(9, Note(40, 2, 90_000)))
    assert list(shard_log.load()) == []
    assert (shard_log.forgotten, shard_log.granted_ms) == (True, 90_000)
    for session_ms in (60_000, 120_000):
        shard_log.grants(session_ms)
    assert granted == [90_000, 120_000]
