"""Writes records: one producer and one thread for all groups of a connection in this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.kafka.records.envelope import LARGEST_VALUE
from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.client_errors import make_client, tell
from airflow_provider.kafka.topics.log_errors import BrokerAwayError, LogError, TooLargeError, TopicRightsError
from airflow_provider.kafka.topics.outage import Outage

# At its level 0 librdkafka still tells of fatal errors: whoever writes hears of them, with what to do.
_silence: Final = logging.getLogger(f"{__name__}.librdkafka")
_silence.disabled = True

NO_HEADERS: Final[Mapping[str, bytes]] = MappingProxyType({})
_POLL_S: Final = 0.1
_FLUSH_S: Final = 5.0
_CONNECT_S: Final = 1.0
_DELIVERY_TIMEOUT_MS: Final = 30_000
_PROPAGATION_MS: Final = 5_000
_NO_RIGHT: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_FATAL: Final = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001
_TIMED_OUT: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})  # noqa: SLF001


class LogWriter:
    """Writes records so that each is stored once, in the order of the calls, on all replicas that are in sync.

    :param config: librdkafka's settings of the connection
    :param outage: knows why a broker does not answer
    :param delivery_timeout_ms: a record that isn't stored by then fails
    :raises LogError: if librdkafka refuses the settings
    """

    def __init__(
        self, config: Mapping[str, Any], outage: Outage, *, delivery_timeout_ms: int = _DELIVERY_TIMEOUT_MS
    ) -> None:
        self._outage = outage
        self._principal = principal_of(config)
        self._config = {
            **config,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            # A topic made by the way would have the broker's default settings: it would not be compacted.
            "allow.auto.create.topics": False,
            "compression.type": "gzip",
            "message.max.bytes": LARGEST_VALUE,
            "delivery.timeout.ms": delivery_timeout_ms,
            "reconnect.backoff.max.ms": 1_000,
            # After that no record waits for a topic that does not exist; the topics were there when this began.
            "topic.metadata.propagation.max.ms": _PROPAGATION_MS,
            "log_level": 0,
            "logger": _silence,
            "error_cb": self._on_error,
        }
        self._lock = threading.Lock()
        self._producer = make_client(Producer, self._config)
        self._fatal: KafkaError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cospark-log-writer", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: str, value: bytes | None, headers: Mapping[str, bytes] = NO_HEADERS) -> Future[int]:
        """Write one record; no value deletes the key.

        :returns: a future of the record's offset, which fails with a :class:`LogError`
        """
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()

        def stored(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._outage.is_back()
                future.set_result(message.offset() or 0)
            else:
                future.set_exception(self._explain(topic, key, error))

        try:
            self._live_producer().produce(
                topic, key=key.encode(), value=value, partition=0, on_delivery=stored, headers=dict(headers)
            )
        except KafkaException as refused:
            future.set_exception(self._explain(topic, key, refused.args[0]))
        except BufferError as full:
            future.set_exception(LogError(f"writing {key!r} to the topic {topic!r} failed: {full}"))
        return future

    async def write(self, topic: str, key: str, value: bytes | None, headers: Mapping[str, bytes] = NO_HEADERS) -> int:
        """As :meth:`send`; waits until the record is stored.

        :returns: the record's offset
        :raises LogError: if it could not be stored
        """
        return await asyncio.wrap_future(self.send(topic, key, value, headers))

    def close(self) -> None:
        """Write what is still to be written, for at most 5 s, and stop; returns when the thread has ended."""
        with contextlib.suppress(KafkaException):
            self._producer.flush(_FLUSH_S)
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        # Without a connection the first record would wait for half a second, until the producer asks again for its id.
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(timeout=_CONNECT_S)
        while not self._closing.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as failed:
                self._fatal = failed.args[0]
                self._closing.wait(_POLL_S)

    def _live_producer(self) -> Producer:
        """The producer; a new one if it has met a fatal error, after which it writes nothing any more.

        Fatal is, for one, that the user may not write to any topic: then it gets no id.
        """
        with self._lock:
            if self._fatal is not None:
                self._fatal = None
                _discard(self._producer)
                self._producer = make_client(Producer, self._config)
            return self._producer

    def _explain(self, topic: str, key: str, error: KafkaError) -> LogError:
        if error.code() in _FATAL and self._fatal is not None:
            error = self._fatal
        if error.code() in _NO_RIGHT:
            return TopicRightsError(topic, "WRITE", self._principal)
        doing = f"writing {key!r} to the topic {topic!r}"
        if error.code() in _TIMED_OUT:
            return BrokerAwayError(self._outage.servers, doing, self._outage.reason or error.str())
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return TooLargeError(
                f"{doing} failed: its size is beyond the topic's max.message.bytes, or {LARGEST_VALUE} before"
                " compression"
            )
        return LogError(f"{doing} failed: {error.str()}")

    def _on_error(self, error: KafkaError) -> None:
        """The reader says when brokers are away; here it shows in the record that was not written."""
        if error.fatal():
            self._fatal = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            tell(self._outage, error)


def _discard(producer: Producer) -> None:
    """Fail what it has not written, so that whoever waits for that hears of it."""
    producer.purge()
    with contextlib.suppress(KafkaException):
        producer.flush(_FLUSH_S)
