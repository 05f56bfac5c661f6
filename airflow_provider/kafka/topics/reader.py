"""Reads topics: one consumer and one thread for all groups of a connection in this process.

The consumer joins no consumer group and commits nothing: every topic is read from its beginning. Only its own thread
calls it, because confluent-kafka blocks other threads while one polls. Orders of other threads are queued.

The thread goes on whatever happens, and sinks are told if their topic is not read any more. If a sink raises an error,
the reading of its topic ends. If the consumer fails, another one takes its place and continues at the same offsets. If
this does not help for some time, the reading of all topics ends.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.client_errors import UNKNOWN_TOPIC, tell
from airflow_provider.kafka.topics.consuming import take_from
from airflow_provider.kafka.topics.errors import (
    NoTopicError,
    PassingError,
    ReaderFaultError,
    TopicError,
    TopicRightsError,
)
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.positions import Positions

log: Final = logging.getLogger(__name__)

# A new order (follow, close) waits for the running poll; a record does not.
_POLL_S: Final = 0.05
_BATCH: Final = 10_000
_GATHER_MS: Final = 20
_PROBE_INTERVAL_S: Final = 1.0
_ANSWER_S: Final = 0.5
_MOST_LOOKED_UP: Final = 4
# A broker that has just started, or that has not been told of a new topic yet, may not know the topic for a moment.
_MISSING_S: Final = 2.0
_PROPAGATION_MS: Final = 5_000
_FROM_THE_START: Final = 0
_FIRST_REST_S: Final = 0.5
"""The pause after a failure of the consumer. It doubles with each further failure before anything was read."""
_MOST_FAULTS: Final = 5
_TROUBLE: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._SSL, KafkaError._AUTHENTICATION}  # noqa: SLF001
)
_DOWN: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001


class Record(NamedTuple):
    """One record of a topic. The value None means that the key is deleted. Headers are never read, because
    confluent-kafka crashes the process if the name of a header is not UTF-8.
    """

    key: bytes | None
    value: bytes | None
    offset: int


class Sink(Protocol):
    """Takes the records of a topic. Called in the reader's thread; must not block."""

    def take(self, records: Sequence[Record]) -> None:
        """Take the next records, in their order."""

    def reached(self, offset: int) -> None:
        """Note that the topic ends at this offset for now."""

    def again(self) -> None:
        """Start over: records were missed, so the topic is now read from its beginning to its end."""

    def fail(self, error: TopicError) -> None:
        """Note that the topic can't be read at present."""

    def closed(self) -> None:
        """Note that no more records come."""


class TopicReader:
    """Follows topics of one partition each, and gives their records to sinks.

    :param config: librdkafka's settings of the connection
    :param outage: is told when brokers go away and come back
    :raises TopicError: if librdkafka refuses the settings
    """

    def __init__(self, config: Mapping[str, Any], outage: Outage) -> None:
        self._outage = outage
        self._principal = principal_of(config)
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._sinks: dict[str, Sink] = {}
        self._ordered: dict[str, None] = {}  # in their order
        self._failing: set[tuple[str, int]] = set()
        self._read: dict[str, int] = {}
        self._positions = Positions()
        self._cluster: str | None = None
        self._down: str | None = None
        self._doubtful: dict[str, float] = {}
        self._probe_at = 0.0
        self._closing = threading.Event()
        self._faults = 0
        self._config = {
            **config,
            **COMMON,
            # Required by librdkafka. Without a subscription and without commits, it is not sent to any broker.
            "group.id": "cospark-topic-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            # A topic that is newly followed waits for the current fetch.
            "fetch.wait.max.ms": 200,
            # The first record after a pause comes immediately, and those that follow within this time come together: if
            # many processes write, a fetch for each record would cost more than the record.
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": _GATHER_MS,
            # Try a topic soon again that was just created, or whose leader has just changed.
            "fetch.error.backoff.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 50,
            # How long until a topic is reported that no broker knows.
            "topic.metadata.propagation.max.ms": _PROPAGATION_MS,
            "logger": log,
            "error_cb": self._on_error,
        }
        self._consumer = make_client(Consumer, self._config)
        self._thread = threading.Thread(target=self._run, name="cospark-topic-reader", daemon=True)
        self._starting = threading.Lock()

    @property
    def cluster(self) -> str:
        """Kafka's id of the cluster; empty while it is not known."""
        return self._cluster or ""

    def follow(self, sinks: Mapping[str, Sink]) -> None:
        """Begin to read these topics, from their beginning."""

        def order() -> None:
            self._sinks.update(sinks)
            self._ordered.update(dict.fromkeys(sinks))

        self._orders.put(order)
        with self._starting:  # started after the first order is queued, which would otherwise wait for a poll
            if self._thread.ident is None:
                self._thread.start()

    def unfollow(self, topics: Iterable[str]) -> None:
        """Stop reading these topics."""

        def order() -> None:
            followed = [topic for topic in topics if topic in self._sinks]
            for topic in followed:
                self._sinks.pop(topic).closed()
            self._end([topic for topic in followed if topic not in self._ordered])
            for topic in followed:
                self._ordered.pop(topic, None)

        self._orders.put(order)

    def close(self) -> None:
        """Stop reading. Returns when the thread has ended."""
        self._closing.set()
        with self._starting:
            begun = self._thread.ident is not None
        if begun:
            self._thread.join()
        else:
            self._discard_consumer()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._read_on()
            except Exception as fault:
                log.exception("the reader of %s has failed", self._outage.servers)
                self._faults += 1
                self._tell_all(fault)
                self._discard_consumer()
                self._closing.wait(_FIRST_REST_S * 2 ** min(self._faults - 1, _MOST_FAULTS))
        for sink in self._sinks.values():
            sink.closed()
        self._discard_consumer()

    def _read_on(self) -> None:
        """Read until this is closed. After a failure, begin with a new consumer."""
        if self._faults:
            self._consumer = make_client(Consumer, self._config)
            self._ordered = dict.fromkeys(self._sinks)
        while not self._closing.is_set():
            self._run_orders()
            self._hand_out(take_from(self._consumer, wait_s=_POLL_S, most=_BATCH))
            self._probe()

    def _tell_all(self, fault: Exception) -> None:
        """Tell all sinks of a failure. A new consumer will try again, but after too many failures in a row, the reading
        ends.
        """
        for topic, sink in list(self._sinks.items()):
            if self._faults < _MOST_FAULTS:
                _tell(sink, PassingError(f"the topic {topic!r} can't be read at present; trying again: {fault!r}"))
            else:
                self._give_up(topic, fault)

    def _give_up(self, topic: str, fault: Exception) -> None:
        self._read.pop(topic, None)
        self._positions.forget((topic,))
        _tell(self._sinks.pop(topic), ReaderFaultError(topic, repr(fault)))

    def _discard_consumer(self) -> None:
        with contextlib.suppress(Exception):  # it is not used again
            self._consumer.close()

    def _look_up(self, topics: Sequence[str]) -> None:
        """Find the topics' leaders now. After an assignment, librdkafka only does this with a timer, up to a second
        later.

        The timer asks for all topics together. Here, each needs a request of its own, which may wait for a fetch. So
        with many topics, as in a triggerer that starts, the timer is faster.
        """
        if len(topics) > _MOST_LOOKED_UP:
            topics = () if self._cluster else topics[:1]
        with contextlib.suppress(KafkaException):
            for topic in topics:
                found = self._consumer.list_topics(topic, timeout=_ANSWER_S)
                self._cluster = self._cluster or found.cluster_id

    def _begin(self, topics: Iterable[str]) -> None:
        self._consumer.incremental_assign(
            [TopicPartition(topic, 0, self._read.get(topic, _FROM_THE_START)) for topic in topics]
        )

    def _end(self, topics: Iterable[str]) -> None:
        self._consumer.incremental_unassign([TopicPartition(topic, 0) for topic in topics])
        self._positions.forget(topics)
        for topic in topics:
            self._read.pop(topic, None)

    def _read_from_start(self, topics: Collection[str]) -> None:
        """Read topics from their beginning again. By itself, librdkafka continues where it was, or at the end of a
        topic that is shorter now: it takes a topic that was created again for a truncated one.
        """
        self._end(topics)
        self._begin(topics)

    def _run_orders(self) -> None:
        while not self._orders.empty():
            self._orders.get()()
        if self._ordered:
            topics = list(self._ordered)
            self._ordered.clear()
            self._look_up(topics)
            self._begin(topics)

    def _hand_out(self, messages: Iterable[Message]) -> None:
        records: dict[str, list[Record]] = {}
        ends: dict[str, int] = {}
        missed: set[str] = set()
        for message in self._up_to_holes(messages, missed):
            topic, error, offset = message.topic(), message.error(), message.offset()
            if error is None and topic is not None and offset is not None:
                key, value = _bytes(message.key()), _bytes(message.value())
                records.setdefault(topic, []).append(Record(key, value, offset))
                ends.pop(topic, None)  # there are records after that end
            elif error is not None and error.code() == _END and topic is not None and offset is not None:
                if offset < self._read.get(topic, 0) and topic in self._sinks:
                    self._read_from_start((topic,))
                else:
                    ends[topic] = offset
            elif error is not None:
                self._on_topic_error(topic, error)
        for topic in {*records, *ends} & self._sinks.keys():
            self._outage.is_back()
            self._failing = {(name, code) for name, code in self._failing if name != topic}
            self._faults = 0
            self._give(topic, records.get(topic, ()), ends.get(topic))
        self._read_again(missed & self._sinks.keys())

    def _up_to_holes(self, messages: Iterable[Message], missed: set[str]) -> Iterator[Message]:
        """The messages of each topic up to the first hole.

        :param missed: the topics with a hole are added here
        """
        for message in messages:
            topic, error, offset = message.topic(), message.error(), message.offset()
            if topic is not None and offset is not None and (error is None or error.code() == _END):
                if topic in missed or self._positions.misses(topic, offset):
                    missed.add(topic)
                    continue
                if error is None:
                    self._positions.took(topic, offset)
                else:
                    self._positions.ended(topic, offset)
            yield message

    def _read_again(self, topics: Collection[str]) -> None:
        for topic in topics:
            log.warning(
                "reading the topic %r again from its beginning: records from offset %d on were compacted while it could"
                " not be read, so that deletions may have been missed",
                topic,
                self._positions.next_of(topic),
            )
            self._sinks[topic].again()
        if topics:
            self._read_from_start(topics)

    def _give(self, topic: str, records: Sequence[Record], end: int | None) -> None:
        sink = self._sinks[topic]
        try:
            if records:
                sink.take(records)
                self._read[topic] = records[-1].offset + 1
            if end is not None:
                sink.reached(end)
        except Exception as fault:
            log.exception("the records of the topic %r can't be applied", topic)
            self._end((topic,))
            self._give_up(topic, fault)

    def _on_topic_error(self, topic: str | None, error: KafkaError) -> None:
        sink = self._sinks.get(topic or "")
        if topic is None or sink is None:
            self._on_error(error)
            return
        match error.code():
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                failure: TopicError = TopicRightsError(topic, "READ", self._principal)
            case code if code in UNKNOWN_TOPIC:
                self._doubt((topic,))
                return
            case _:
                failure = TopicError(f"the topic {topic!r} can't be read: {error.str()}")
        self._fail(topic, failure, error.code())

    def _fail(self, topic: str, failure: TopicError, code: int) -> None:
        if (topic, code) not in self._failing:
            self._failing.add((topic, code))
            log.warning("%s", failure)
        self._sinks[topic].fail(failure)

    def _on_error(self, error: KafkaError) -> None:
        """Note an error. librdkafka always tries again by itself.

        An error that all brokers are down may be outdated when it arrives, and the name of an unknown topic is only in
        the text of the error. So both are checked later (:meth:`_probe`).
        """
        if error.code() in _TROUBLE:
            tell(self._outage, error)
        elif error.code() == _DOWN:
            self._down = error.str()
        elif error.code() in UNKNOWN_TOPIC:
            self._doubt([topic for topic in self._sinks if error.str().startswith(f"{topic} [")])

    def _doubt(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._doubtful.setdefault(topic, time.monotonic())

    def _probe(self) -> None:
        """If there is doubt, ask whether brokers are there and know the topics, and begin to read again what can't be
        read: if they are back and nothing is written, nothing else would show it.
        """
        now = time.monotonic()
        failing = {topic for topic, _ in self._failing} & self._sinks.keys()
        trouble = self._outage.away or self._outage.refusal is not None or self._down
        if not (trouble or self._doubtful or failing) or now < self._probe_at:
            return
        self._probe_at = now + _PROBE_INTERVAL_S
        try:
            found = self._consumer.list_topics(next(iter(self._sinks), "cospark"), timeout=_ANSWER_S)
            self._compare(found.cluster_id)
            unknown = [topic for topic in self._doubtful if topic in self._sinks and self._is_unknown(topic)]
        except KafkaException:
            if self._down:
                self._outage.went_away(self._down, asked_at=now)
            return
        self._down = None
        self._outage.is_back()
        self._doubtful = {topic: self._doubtful[topic] for topic in unknown}
        for topic, since in self._doubtful.items():
            if now - since >= _MISSING_S:
                self._fail(topic, NoTopicError(topic), KafkaError.UNKNOWN_TOPIC_OR_PART)
        self._tell_of_end(failing - self._doubtful.keys())

    def _tell_of_end(self, topics: Collection[str]) -> None:
        """Go on where they were. Of an end that has not moved, librdkafka only tells again after a new assignment."""
        if topics:
            self._consumer.incremental_unassign([TopicPartition(topic, 0) for topic in topics])
            self._begin(topics)

    def _compare(self, cluster: str | None) -> None:
        """Read all topics again if the cluster's id has changed: then the brokers have lost their data."""
        if self._cluster is not None and cluster != self._cluster:
            self._doubt(self._sinks)
            self._read_from_start(self._sinks.keys())
        self._cluster = cluster

    def _is_unknown(self, topic: str) -> bool:
        error = self._consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic].error
        return error is not None and error.code() in UNKNOWN_TOPIC


def _tell(sink: Sink, error: TopicError) -> None:
    try:
        sink.fail(error)
    except Exception:
        log.exception("could not tell a listener of a change: %s", error)


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
