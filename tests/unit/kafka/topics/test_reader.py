"""The thread that reads all topics of a connection goes on, or those who depend on it hear that it does not.

Librdkafka's consumer is a stand-in here, which gives what a test puts into a topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from waiting import eventually

from airflow_provider.kafka.topics import reader as module
from airflow_provider.kafka.topics.errors import NoTopicError, ReaderFaultError, TopicError, TopicRightsError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.reader import Record, TopicReader

_END: Final = KafkaError._PARTITION_EOF


class Message:
    """A record, or (without a value) the end of a topic."""

    def __init__(self, topic: str | None, offset: int, value: bytes | None, error: KafkaError | None = None) -> None:
        self._topic, self._offset, self._value, self._error = topic, offset, value, error

    def topic(self) -> str | None:
        return self._topic

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> KafkaError | None:
        return KafkaError(_END) if self._error is None and self._value is None else self._error


class Broker:
    """The topics, and what goes wrong with each consumer.

    :ivar refused: the topics that can't be read, and the code of the error
    :ivar answers: whether it tells of its topics
    :ivar asked: how often it was asked about them
    """

    def __init__(self) -> None:
        self.topics: dict[str, list[bytes | None]] = {}
        self.consumers: list[Consumer] = []
        self.faults: deque[Exception | KafkaError] = deque()
        self.refused: dict[str, int] = {}
        self.answers = True
        self.asked = 0

    def error_of(self, topic: str) -> KafkaError | None:
        return KafkaError(self.refused[topic]) if topic in self.refused else None

    def consumer(self, _kind: object, _config: object) -> Consumer:
        consumer = Consumer(self)
        self.consumers.append(consumer)
        return consumer


class Consumer:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.begun: dict[str, int] = {}
        self._at: dict[str, int] = {}
        self._ended: set[str] = set()
        self._told: dict[str, int] = {}
        self.closed = False

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.begun[partition.topic] = self._at[partition.topic] = partition.offset
            self._ended.discard(partition.topic)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            del self._at[partition.topic]

    def list_topics(self, _topic: str, timeout: float) -> Any:
        self._broker.asked += 1
        if not self._broker.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(
            cluster_id="c",
            topics={topic: SimpleNamespace(error=self._broker.error_of(topic)) for topic in self._broker.topics},
        )

    def poll(self, _timeout: float) -> Message | None:
        if self._broker.faults and self._at:
            fault = self._broker.faults.popleft()
            if isinstance(fault, KafkaError):
                return Message(None, 0, None, fault)
            raise fault
        for topic, at in self._at.items():
            code = self._broker.refused.get(topic)
            if code is not None:
                if self._told.get(topic) != code:
                    self._told[topic] = code
                    return Message(topic, at, None, KafkaError(code))
                continue
            values = self._broker.topics.get(topic, [])
            if at < len(values):
                self._at[topic] += 1
                self._ended.discard(topic)
                return Message(topic, at, values[at])
            if topic not in self._ended:
                self._ended.add(topic)
                return Message(topic, at, None)
        return None

    def consume(self, _number: int, _timeout: float) -> list[Message]:
        return []

    def close(self) -> None:
        self.closed = True


class Sink:
    def __init__(self, take: Callable[[Record], None] = lambda _record: None) -> None:
        self.offsets: list[int] = []
        self.problems: list[TopicError] = []
        self.ends: list[int] = []
        self.has_closed = False
        self._take = take

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            self._take(record)
            self.offsets.append(record.offset)

    def reached(self, offset: int) -> None:
        self.ends.append(offset)

    def again(self) -> None:
        raise AssertionError("nothing was missed")

    def fail(self, error: TopicError) -> None:
        self.problems.append(error)

    def closed(self) -> None:
        self.has_closed = True


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(module, "make_client", broker.consumer)
    monkeypatch.setattr(module, "_POLL_S", 0.001)
    monkeypatch.setattr(module, "_FIRST_REST_S", 0.001)
    monkeypatch.setattr(module, "_PROBE_INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "_MISSING_S", 0.01)
    return broker


@pytest.fixture
def reader(broker: Broker) -> Iterator[TopicReader]:
    reader = TopicReader({}, Outage("nowhere:9"))
    yield reader
    reader.close()
    assert all(consumer.closed for consumer in broker.consumers)


def fails(_record: Record) -> None:
    raise RecursionError("in what takes records")


async def test_what_cannot_take_its_records_is_told_and_the_others_are_read_on(
    broker: Broker, reader: TopicReader, caplog: pytest.LogCaptureFixture
) -> None:
    broker.topics = {"a.jobs": [b"0", b"1"], "b.jobs": [b"0"]}
    bad, good = Sink(fails), Sink()
    reader.follow({"a.jobs": bad, "b.jobs": good})
    await eventually(lambda: good.offsets == [0] and bad.problems, "both were given their records")
    broker.topics["b.jobs"].append(b"1")
    await eventually(lambda: good.offsets == [0, 1], "the other one is read on")
    (problem,) = bad.problems
    assert isinstance(problem, ReaderFaultError)
    assert "'a.jobs' is no longer read" in str(problem)
    assert good.problems == []
    assert "the records of the topic 'a.jobs' can't be applied" in caplog.text
    assert len(broker.consumers) == 1


async def test_who_follows_hears_that_nothing_comes_any_more(broker: Broker, reader: TopicReader) -> None:
    broker.topics = {"a.jobs": [b"0"], "b.jobs": [b"0"]}
    left, right = Sink(), Sink()
    reader.follow({"a.jobs": left, "b.jobs": right})
    await eventually(lambda: left.offsets == right.offsets == [0], "both were read")
    reader.unfollow(["a.jobs"])
    await eventually(lambda: left.has_closed, "the one that is read no more")
    assert not right.has_closed
    reader.close()
    assert right.has_closed


async def test_a_topic_that_was_given_up_is_read_from_its_start_for_whoever_follows_it_next(
    broker: Broker, reader: TopicReader
) -> None:
    broker.topics = {"a.jobs": [b"0", b"1"]}
    bad, good = Sink(fails), Sink()
    reader.follow({"a.jobs": bad})
    await eventually(lambda: bad.problems, "it is given up")
    reader.unfollow(["a.jobs"])
    reader.follow({"a.jobs": good})
    await eventually(lambda: good.offsets == [0, 1], "it is read")


@pytest.mark.parametrize("fault", [RuntimeError("out of luck"), KafkaError(KafkaError._FATAL, "out of luck")])
async def test_another_consumer_reads_on_where_the_one_before_it_failed(
    fault: Exception | KafkaError, broker: Broker, reader: TopicReader, caplog: pytest.LogCaptureFixture
) -> None:
    broker.topics = {"a.jobs": [b"0", b"1", b"2"]}
    sink = Sink()
    reader.follow({"a.jobs": sink})
    await eventually(lambda: sink.ends == [3], "it is read")
    broker.faults.append(fault)
    await eventually(lambda: sink.problems, "it says so")
    broker.topics["a.jobs"].append(b"3")
    await eventually(lambda: sink.offsets == [0, 1, 2, 3], "it is read on")
    assert broker.consumers[0].closed
    assert broker.consumers[1].begun == {"a.jobs": 3}
    assert "out of luck" in str(sink.problems[0])
    assert not isinstance(sink.problems[0], ReaderFaultError), "it is mended"
    assert "the reader of nowhere:9 has failed" in caplog.text


async def test_what_no_consumer_can_read_is_given_up_and_whoever_comes_next_is_served(
    broker: Broker, reader: TopicReader
) -> None:
    broker.topics = {"a.jobs": [b"0"]}
    broker.faults.extend(RuntimeError("out of luck") for _ in range(module._MOST_FAULTS))
    sink, later = Sink(), Sink()
    reader.follow({"a.jobs": sink})
    await eventually(lambda: len(sink.problems) == module._MOST_FAULTS, "it is given up")
    assert [isinstance(problem, ReaderFaultError) for problem in sink.problems[-2:]] == [False, True]
    assert sink.offsets == []
    reader.follow({"a.jobs": later})
    await eventually(lambda: later.offsets == [0], "it is read")


async def test_faults_between_which_something_was_read_do_not_add_up(broker: Broker, reader: TopicReader) -> None:
    broker.topics = {"a.jobs": [b"0"]}
    sink = Sink()
    reader.follow({"a.jobs": sink})
    for number in range(1, 2 * module._MOST_FAULTS):
        await eventually(lambda: len(sink.ends) == number, "it is read to its end")  # noqa: B023
        broker.faults.append(RuntimeError("out of luck"))
    await eventually(lambda: len(sink.ends) == 2 * module._MOST_FAULTS, "it still is")
    assert sink.offsets == [0]
    assert not any(isinstance(problem, ReaderFaultError) for problem in sink.problems)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, TopicRightsError), (KafkaError.UNKNOWN_TOPIC_OR_PART, NoTopicError)],
)
async def test_a_topic_that_can_be_read_again_says_so_though_nothing_is_written(
    code: int, kind: type[TopicError], broker: Broker, reader: TopicReader
) -> None:
    broker.topics = {"a.jobs": [b"0", b"1"], "b.jobs": []}
    sink, other = Sink(), Sink()
    reader.follow({"a.jobs": sink, "b.jobs": other})
    await eventually(lambda: sink.ends == [2] and other.ends == [0], "they are read")
    broker.refused["a.jobs"] = code
    await eventually(lambda: sink.problems, "it says so")
    assert isinstance(sink.problems[0], kind)
    assert sink.ends == [2]
    del broker.refused["a.jobs"]
    await eventually(lambda: sink.ends == [2, 2], "its end is told again")
    assert sink.offsets == [0, 1]
    assert (other.ends, other.problems) == ([0], [])


async def test_a_refusal_is_over_when_a_broker_answers_though_nothing_is_written(
    broker: Broker, reader: TopicReader
) -> None:
    broker.topics = {"a.jobs": [b"0"]}
    sink = Sink()
    reader.follow({"a.jobs": sink})
    await eventually(lambda: sink.ends == [1], "it is read")
    broker.answers = False
    reader._outage.refused("no such user", "check sasl.username")
    asked = broker.asked
    await eventually(lambda: broker.asked > asked + 1, "it is asked again and again")
    assert reader._outage.refusal is not None
    broker.answers = True
    await eventually(lambda: reader._outage.refusal is None, "it has answered")
    assert sink.ends == [1]
