"""What the producer of a shard asks librdkafka for, in which order, and what it makes of a record that is too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.shards import producer as producer_module
from airflow_provider.shards.errors import OversizedError
from airflow_provider.shards.producer import ShardProducer
from airflow_provider.shards.requests import Write

RECORD = Write("records", 0, b"key", b"value")


class Client:
    """In librdkafka's place.

    :ivar refuses: as it does a record before it is sent
    :ivar reports: as a broker does a record that was sent
    """

    def __init__(self, _make: object, config: dict[str, Any]) -> None:
        self.config = config
        self.calls: list[str] = []
        self.refuses = self.reports = False
        self._delivered: Callable[[KafkaError | None, None], None] | None = None

    def produce(self, *_: object, on_delivery: Callable[[KafkaError | None, None], None]) -> None:
        self.calls.append("produce")
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self._delivered = on_delivery

    def commit_transaction(self, _timeout_s: float) -> None:
        self.calls.append("commit_transaction")
        if self.reports and self._delivered is not None:
            self._delivered(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
            raise KafkaException(KafkaError(KafkaError._INCONSISTENT, "failed", txn_requires_abort=True))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append(name)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> tuple[ShardProducer, Client]:
    made: list[Client] = []

    def make(kind: object, config: dict[str, Any]) -> Client:
        made.append(Client(kind, config))
        return made[-1]

    monkeypatch.setattr(producer_module, "make_client", make)
    return ShardProducer({}, 3), made[0]


def test_the_offset_goes_first_and_is_tried_again_soon(client: tuple[ShardProducer, Client]) -> None:
    """A partition to write to is asked for again after 20 ms, whatever is set."""
    producer, made = client
    producer.commit([RECORD], 5, object())
    assert made.calls == ["begin_transaction", "send_offsets_to_transaction", "produce", "commit_transaction"]
    assert made.config["retry.backoff.ms"] < 20
    producer.close()


@pytest.mark.parametrize("who", ["refuses", "reports"])
def test_what_is_too_large_is_aborted_and_said(client: tuple[ShardProducer, Client], who: str) -> None:
    producer, made = client
    setattr(made, who, True)
    with pytest.raises(OversizedError, match=r"5 bytes are more than the topic 'records' takes in one record"):
        producer.commit([RECORD], 5, object())
    assert made.calls[-1] == "abort_transaction"
    setattr(made, who, False)
    producer.commit([RECORD], 5, object())
    producer.close()
