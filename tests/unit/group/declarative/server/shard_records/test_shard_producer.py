"""What the producer of a shard asks librdkafka for, in which order, and what it makes of a record that is too large."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from turned_clock import CLOCK
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC
from airflow_provider.group.declarative.server.errors import OversizedError, ShardError
from airflow_provider.group.declarative.server.shard_records import producer as producer_module
from airflow_provider.group.declarative.server.shard_records.producer import ShardProducer
from airflow_provider.kafka.topics.errors import LastingError

RECORD = Write("records", 0, b"key", b"value")
KEPT = Write(RECORDS_TOPIC, 0, b"key", b"value")


class Stored:
    """A record that a broker has taken."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class Client:
    """In librdkafka's place.

    :ivar refuses: as it does a record before it is sent
    :ivar reports: as a broker does a record that was sent
    :ivar end: where the records end
    :ivar late: so many times a flush comes to its time limit first
    :ivar hangs: the call that does not return before the test is over
    :ivar noted: with the last offset
    """

    def __init__(self, _make: object, config: dict[str, Any]) -> None:
        self.config = config
        self.calls: list[str] = []
        self.refuses = self.reports = False
        self.end = self.late = 0
        self.noted: str | None = None
        self.hangs = ""
        self.over = threading.Event()
        self._delivered: Callable[[KafkaError | None, Stored | None], None] | None = None

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], _group: object, _timeout_s: float) -> None:
        self.calls.append("send_offsets_to_transaction")
        if self.hangs == "send_offsets_to_transaction":
            self.over.wait(DEADLINE_S)
        (self.noted,) = (each.metadata for each in offsets)

    def flush(self, timeout_s: float) -> int:
        self.calls.append("flush")
        if self.late:
            CLOCK.turn(timeout_s)
            self.late -= 1
            return 1
        if self._delivered is not None:
            self._delivered(None, Stored(self.end))
            self.end += 1
        return 0

    def produce(self, *_: object, on_delivery: Callable[[KafkaError | None, Stored | None], None]) -> None:
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
        def call(*_: object) -> None:
            self.calls.append(name)
            if name == self.hangs:
                self.over.wait(DEADLINE_S)

        return call


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> tuple[ShardProducer, Client]:
    made: list[Client] = []

    def make(kind: object, config: dict[str, Any]) -> Client:
        made.append(Client(kind, config))
        return made[-1]

    monkeypatch.setattr(producer_module, "make_client", make)
    return ShardProducer({}, 3, 4), made[0]


def test_the_offset_goes_first_and_is_tried_again_soon(client: tuple[ShardProducer, Client]) -> None:
    """A partition to write to is asked for again after 20 ms, whatever is set."""
    producer, made = client
    producer.commit([RECORD], 5, object())
    assert made.calls == ["begin_transaction", "send_offsets_to_transaction", "produce", "commit_transaction"]
    assert made.config["retry.backoff.ms"] < 20
    producer.close()


def test_a_client_that_can_not_be_made_leaves_no_thread_behind() -> None:
    """Each try to serve a shard makes one."""
    threads = {*threading.enumerate()}
    with pytest.raises(LastingError):
        ShardProducer({"security.protocol": "none"}, 3, 4)
    assert not {*threading.enumerate()} - threads


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


def test_with_each_request_it_is_noted_how_far_the_records_go(client: tuple[ShardProducer, Client]) -> None:
    """So the next one to load them sees whether they are gone."""
    producer, made = client
    made.end = 7
    producer.go_on(7, 7)
    producer.commit([KEPT], 5, object())
    assert made.noted == "7 4 0"
    producer.commit([RECORD], 6, object())
    assert made.noted == "8 4 0"
    producer.grants(90_000)
    producer.commit([RECORD], 7, object())
    assert made.noted == "8 4 90000"
    producer.close()


def test_that_records_are_gone_is_noted_until_there_are_others(client: tuple[ShardProducer, Client]) -> None:
    producer, made = client
    producer.go_on(0, 40)
    producer.commit([RECORD], 5, object())
    assert made.noted == "40 4 0"
    producer.commit([KEPT], 6, object())
    producer.commit([RECORD], 7, object())
    assert made.noted == "1 4 0"
    producer.close()


@pytest.mark.parametrize("late", [0, 2])
def test_nothing_is_written_where_records_are_gone_that_it_would_follow(
    client: tuple[ShardProducer, Client], late: int
) -> None:
    """The next one would take it for all that there is. A topic that is missing at first may be made meanwhile."""
    producer, made = client
    producer.go_on(7, 7)
    made.late = late
    with pytest.raises(ShardError, match=r"records of shard 3 are gone: the topic '__worker_offsets' was deleted"):
        producer.commit([KEPT], 5, object())
    assert "commit_transaction" not in made.calls
    assert made.calls[-1] == "abort_transaction"
    producer.close()


HANGING: dict[str, Callable[[ShardProducer], None]] = {
    "init_transactions": lambda producer: producer.begin(),
    "send_offsets_to_transaction": lambda producer: producer.commit([RECORD], 5, object()),
}


@pytest.mark.parametrize("call", HANGING)
def test_one_that_hangs_is_left_to_itself(
    client: tuple[ShardProducer, Client], call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard is loaded again, with another one. After a broker was killed, librdkafka may never return."""
    monkeypatch.setattr(producer_module, "_HANGS_S", 0.05)
    producer, made = client
    made.hangs = call
    try:
        with pytest.raises(ShardError, match="the producer of shard 3 hangs; it will be replaced"):
            HANGING[call](producer)
        wait_until(lambda: made.calls[-1:] == [call], "it was called")
        producer.close()
    finally:
        made.over.set()


@pytest.mark.turned_clock
async def test_what_stays_unstored_is_not_committed(client: tuple[ShardProducer, Client]) -> None:
    """Where it lies is not known then, nor whether earlier records are there. The shard is loaded again."""
    producer, made = client
    made.late = 1_000_000
    with pytest.raises(ShardError, match="shard 3: a record is not stored yet"):
        producer.commit([KEPT], 5, object())
    assert made.calls.count("flush") > 1, "it is given the time of a transaction"
    assert "commit_transaction" not in made.calls
    producer.close()
