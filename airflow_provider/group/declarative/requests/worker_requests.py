"""Writes requests to the coordinators of declarative groups, and reads the replies: one producer, one consumer and one
thread. Each client is replaced when it has failed.

A reader keeps its id when its producer is replaced. A request that the old producer has given up may still be stored,
after later ones of the new producer: coordinators ignore it, because it has a lower number of the same reader.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from airflow_provider.group.declarative.protocol.sharding import REPLIES_TOPIC, REQUESTS_TOPIC, partition_of
from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    Reply,
    RequestBody,
    decode_reply,
    encode_request,
    request_of,
)
from airflow_provider.kafka.destroying import destroy_apart
from airflow_provider.kafka.lasting_producer import LastingProducer
from airflow_provider.kafka.per_process import PerProcess
from airflow_provider.kafka.settings import KafkaSettings, principal_of
from airflow_provider.kafka.topics.client_errors import tell
from airflow_provider.kafka.topics.consuming import take_from
from airflow_provider.kafka.topics.errors import (
    BrokerAwayError,
    NoLeaderError,
    PassingError,
    TopicError,
    TopicRightsError,
)
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.trouble import Trouble
from airflow_provider.state.records.envelope import LARGEST_VALUE

log: Final = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_BATCH: Final = 1_000
_OPEN_S: Final = 10.0
APPEAR_S: Final = 30.0
_LOOK_S: Final = 0.1
_LOOK_AGAIN_S: Final = 1.0
_AGAIN_ANSWER_S: Final = 1.0
_REST_S: Final = 0.5
"""The pause before a consumer that has failed is replaced."""
_FLUSH_S: Final = 1.0
_DELIVERY_TIMEOUT_MS: Final = 5_000
"""After this time the request was sent again, so there is no use in writing the old one."""
_AWAY: Final = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001
_NO_RIGHT: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_NO_LEADER: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # noqa: SLF001  "No leaders found"
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
"""Errors of a topic that was just created, and while brokers come and go."""


class NoCoordinatorsError(PassingError):
    """A cluster has no coordinators of declarative groups. It passes when one starts."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic!r} does not exist: coordinators of declarative groups create it. Start one"
            ", or give all workers of the group group_protocol='classic'"
        )
        self.topic = topic


class WorkerRequests:
    """The Kafka clients for requests and replies.

    Each reader has one partition for its replies. Several readers may share a partition; the key of each record is the
    id of the reader that it is for.

    :param heard: called with replies, in the thread
    :param failed: called in the thread with the correlation id of a request that could not be written, and why
    :ivar problem: why replies can't be read at present; None: they can
    :raises TopicError: librdkafka refuses the settings
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        heard: Callable[[Sequence[Reply]], None],
        failed: Callable[[int, str], None],
    ) -> None:
        config = settings.librdkafka()
        self._heard: Final = heard
        self._failed: Final = failed
        self._principal: Final = principal_of(config)
        self._outage: Final = Outage(settings.bootstrap_servers)
        self._client_id: Final = settings.client_id
        self._client_host: Final = socket.gethostname()
        self._reader: Final = uuid.uuid4().hex
        self._shards = 0
        self._reply_partition = 0
        self._read_to = 0
        self._doubtful: Final = threading.Event()
        self._look_at = 0.0
        self._missing: str | None = None
        self._trouble: Final = Trouble()
        self.problem: TopicError | None = None
        self._closing: Final = threading.Event()
        self._consumer_config: Final[Mapping[str, Any]] = {
            **config,
            **COMMON,
            "error_cb": lambda error: tell(self._outage, error),
            # librdkafka requires it; without a subscription and without commits it is not used.
            "group.id": "cospark-reply-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
            # By default librdkafka pauses for a second when its queue is full: a reply would have to wait.
            "fetch.queue.backoff.ms": 10,
            "fetch.error.backoff.ms": 50,
        }
        self._consumer = make_client(Consumer, {**self._consumer_config})
        try:
            self._producer: Final = LastingProducer(
                lambda: make_client(
                    Producer,
                    {
                        **config,
                        **COMMON,
                        "error_cb": lambda error: tell(self._outage, error),
                        "acks": "all",
                        "enable.idempotence": True,
                        # Don't delay requests to batch them: those of one turn of the loop are sent together anyway.
                        "linger.ms": 1,
                        "message.max.bytes": LARGEST_VALUE,
                        "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS,
                    },
                ),
                delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
            )
        except BaseException:
            destroy_apart(self._consumer.close)
            raise
        self._thread: Final = threading.Thread(target=self._run, name="cospark-worker-requests", daemon=True)

    def open(self, *, appear_s: float = APPEAR_S) -> None:
        """Find the topics, and read replies from now on. Blocks.

        :param appear_s: how long to wait for topics that are missing or without a leader: a coordinator that starts now
            creates them
        :raises NoCoordinatorsError: a topic is missing
        :raises TopicRightsError: this user may not read it
        :raises BrokerAwayError: no broker answers in time
        :raises TopicError: a topic can't be used
        """
        until = time.monotonic() + appear_s
        while True:
            try:
                self._find()
                break
            except (NoCoordinatorsError, NoLeaderError):
                if time.monotonic() >= until or self._closing.wait(_LOOK_S):
                    raise
        _open.own.add(self)
        self._thread.start()

    def _find(self) -> None:
        self._shards = self._partitions_of(REQUESTS_TOPIC, _OPEN_S)
        partition = partition_of(self._reader, self._partitions_of(REPLIES_TOPIC, _OPEN_S))
        self._read_replies(partition, self._end_of_replies(partition, _OPEN_S))

    def doubt(self) -> None:
        """A request may have gone to the wrong partition: check in the thread which partitions the topics have now, and
        whether they were deleted and created again.
        """
        self._doubtful.set()

    def _look_again(self) -> None:
        self._doubtful.clear()
        self._look_at = time.monotonic() + _LOOK_AGAIN_S
        try:
            self._find_again()
        except NoCoordinatorsError as missing:
            if self._missing != missing.topic:
                log.warning("no requests can be sent to coordinators: %s", missing)
            self._missing = missing.topic
        except TopicError as wrong:
            log.debug("looking for the topics again: %s", wrong)
        else:
            if self._missing is not None:
                log.info("requests can be sent to coordinators again: the topic %r was created again", self._missing)
            self._missing = None

    def _find_again(self) -> None:
        """Find the topics again. A topic that was created again may have another number of partitions and unread
        replies.

        :raises TopicError: a topic is missing, or can't be used at present
        """
        self._shards = self._partitions_of(REQUESTS_TOPIC, _AGAIN_ANSWER_S)
        partition = partition_of(self._reader, self._partitions_of(REPLIES_TOPIC, _AGAIN_ANSWER_S))
        if partition != self._reply_partition or self._read_to > self._end_of_replies(partition, _AGAIN_ANSWER_S):
            self._read_replies(partition, 0)

    def _end_of_replies(self, partition: int, timeout_s: float) -> int:
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(REPLIES_TOPIC, partition), timeout=timeout_s)
        except KafkaException as failed:
            raise self._explain(REPLIES_TOPIC, "READ", failed.args[0]) from failed
        return end

    def _read_replies(self, partition: int, offset: int) -> None:
        self._reply_partition, self._read_to = partition, offset
        self._consumer.assign([TopicPartition(REPLIES_TOPIC, partition, offset)])

    def send(self, body: RequestBody, *, correlation_id: int) -> Future[None]:
        """Write a request. Its reply, or the failure to write it, comes through the callbacks.

        :returns: a future that is done when the request is written, or has failed
        """
        written: Future[None] = Future()
        request = request_of(
            body,
            correlation_id=correlation_id,
            reply_partition=self._reply_partition,
            client_id=self._client_id,
            client_host=self._client_host,
        )

        def delivered(error: KafkaError | None, _message: Message | None) -> None:
            if error is not None:
                unwritten(self._explain(REQUESTS_TOPIC, "WRITE", error))
            else:
                written.set_result(None)

        def unwritten(why: Exception) -> None:
            self._failed(correlation_id, f"it could not be written: {why}")
            written.set_result(None)

        try:
            self._producer.produce(
                REQUESTS_TOPIC,
                key=self._reader.encode(),
                value=encode_request(request),
                partition=partition_of(body.group_id, self._shards),
                delivered=delivered,
            )
        except KafkaException as refused:
            delivered(refused.args[0], None)
        except (BufferError, TopicError) as refused:
            unwritten(refused)
        return written

    def close(self) -> None:
        """Write pending requests, for at most a second, and stop. Blocks."""
        self._producer.close(_FLUSH_S)
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        with contextlib.suppress(KafkaException):
            self._consumer.close()
        _open.own.discard(self)

    def _run(self) -> None:
        broken = False
        while not self._closing.is_set():
            try:
                if broken:
                    self._replace_consumer()
                    broken = False
                self._turn()
            except Exception as fault:
                broken = True
                if self._trouble.is_news(repr(fault)):
                    log.exception("the reader of %s has failed; another consumer takes its place", REPLIES_TOPIC)
                self._closing.wait(_REST_S)

    def _turn(self) -> None:
        self._producer.poll(0)
        self._take(take_from(self._consumer, wait_s=_POLL_S, most=_BATCH))
        if self._doubtful.is_set() and time.monotonic() >= self._look_at:
            self._look_again()

    def _replace_consumer(self) -> None:
        """Read on with another consumer.

        :raises TopicError: if librdkafka refuses the settings
        """
        failed, self._consumer = self._consumer, make_client(Consumer, {**self._consumer_config})
        with contextlib.suppress(Exception):  # it is not used again
            failed.close()
        self._read_replies(self._reply_partition, self._read_to)

    def _take(self, messages: Sequence[Message]) -> None:
        reader, replies = self._reader.encode(), []
        for message in messages:
            value, error = message.value(), message.error()
            if error is not None:
                self._note(self._explain(REPLIES_TOPIC, "READ", error))
                continue
            self._note(None)
            self._read_to = (message.offset() or 0) + 1
            if message.key() != reader or not isinstance(value, bytes):
                continue
            try:
                replies.append(decode_reply(value))
            except MalformedMessageError as wrong:
                log.warning("a reply in %s can't be read: %s", REPLIES_TOPIC, wrong)
        if replies:
            self._outage.is_back()
            self._heard(replies)

    def _note(self, problem: TopicError | None) -> None:
        """Note whether replies can be read."""
        self.problem = problem
        if problem is None:
            self._trouble.over()
        elif self._trouble.is_news(str(problem)):
            log.warning("no replies of coordinators can be read: %s", problem)

    def _partitions_of(self, topic: str, timeout_s: float) -> int:
        try:
            found = self._consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        except KafkaException as failed:
            raise self._explain(topic, "READ", failed.args[0]) from failed
        if found.error is not None:
            raise self._explain(topic, "DESCRIBE", found.error)
        return len(found.partitions)

    def _explain(self, topic: str, operation: str, error: KafkaError) -> TopicError:
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
            return NoCoordinatorsError(topic)
        if error.code() in _NO_LEADER:
            return NoLeaderError(f"the topic {topic!r} can't be used at present: {error.str()}")
        if error.code() in _NO_RIGHT:
            return TopicRightsError(topic, operation, self._principal)
        if error.code() in _AWAY:
            return BrokerAwayError(
                self._outage.servers, f"using the topic {topic!r}", self._outage.reason or error.str()
            )
        return TopicError(f"the topic {topic!r} can't be used: {error.str()}")


_open: PerProcess[set[WorkerRequests]] = PerProcess(set)
