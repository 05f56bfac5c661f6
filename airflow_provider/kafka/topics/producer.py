"""Writes records: one producer and one thread for all groups of a connection in this process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.kafka.lasting_producer import LastingProducer
from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.client_errors import tell
from airflow_provider.kafka.topics.errors import TooLargeError, TopicError, TopicRightsError, UnsureError
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.state.records.envelope import LARGEST_VALUE

_POLL_S: Final = 0.1
_LINGER_MS: Final = 5
_FLUSH_S: Final = 5.0
_CONNECT_S: Final = 1.0
_DELIVERY_TIMEOUT_MS: Final = 30_000
_PROPAGATION_MS: Final = 5_000
_NO_RIGHT: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_TIMED_OUT: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})  # noqa: SLF001


class NewRecord(NamedTuple):
    """A record to be written. The value None deletes the key."""

    topic: str
    key: str
    value: bytes | None


_Outcome = tuple["asyncio.Future[None]", "TopicError | None"]


class TopicWriter:
    """Writes records. Each is stored once, in the order of the calls, on all in-sync replicas.

    :param config: librdkafka's settings of the connection
    :param outage: knows why a broker does not answer
    :param delivery_timeout_ms: a record that is not stored in this time has failed
    :raises TopicError: if librdkafka refuses the settings
    """

    def __init__(
        self, config: Mapping[str, Any], outage: Outage, *, delivery_timeout_ms: int = _DELIVERY_TIMEOUT_MS
    ) -> None:
        self._outage = outage
        self._principal = principal_of(config)
        self._config = {
            **config,
            **COMMON,
            "error_cb": self._on_error,
            "acks": "all",
            "enable.idempotence": True,
            # All records of one turn of an event loop go in one request.
            "linger.ms": _LINGER_MS,
            "compression.type": "gzip",
            "message.max.bytes": LARGEST_VALUE,
            "delivery.timeout.ms": delivery_timeout_ms,
            # The topics existed when this began, so a record waits only this long for one that does not exist.
            "topic.metadata.propagation.max.ms": _PROPAGATION_MS,
        }
        self._outcomes_lock = threading.Lock()
        self._outcomes: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
        self._producer = LastingProducer(
            lambda: make_client(Producer, {**self._config}),
            delivery_timeout_ms=delivery_timeout_ms,
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cospark-topic-writer", daemon=True)
        self._thread.start()

    def write(self, *records: NewRecord) -> asyncio.Future[None]:
        """Write records.

        :returns: a future of the running loop. It is done when all are stored, and fails with a :class:`TopicError` if
            one could not be stored
        """
        loop = asyncio.get_running_loop()
        all_stored: asyncio.Future[None] = loop.create_future()
        left, failed = len(records), None

        def stored(error: TopicError | None) -> None:
            nonlocal left, failed
            with self._outcomes_lock:
                left, failed = left - 1, failed or error
                if not left:
                    self._outcomes.setdefault(loop, []).append((all_stored, failed))

        for record in records:
            self._produce(record, stored)
        if not left:
            self._tell()  # all of them may have been refused already
        return all_stored

    def _produce(self, record: NewRecord, stored: Callable[[TopicError | None], None]) -> None:
        def delivered(error: KafkaError | None, _message: Message | None) -> None:
            if error is None:
                self._outage.is_back()
            stored(None if error is None else self._explain(record, error))

        topic, key, value = record
        try:
            self._producer.produce(topic, key=key.encode(), value=value, partition=0, delivered=delivered)
        except (KafkaException, BufferError, TopicError) as refused:
            stored(self._explain_refusal(record, refused))

    def _tell(self) -> None:
        """Wake each loop once for all results so far, because a call into another thread's loop costs a system call."""
        with self._outcomes_lock:
            outcomes_of, self._outcomes = self._outcomes, {}
        for loop, outcomes in outcomes_of.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, outcomes)

    def close(self) -> None:
        """Write pending records, for at most 5 s, and stop. Returns when the thread has ended."""
        self._producer.close(_FLUSH_S)
        self._tell()
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(KafkaException):
            self._producer.connect(_CONNECT_S)
        while not self._closing.is_set():
            self._producer.poll(_POLL_S)
            self._tell()

    def _explain_refusal(self, record: NewRecord, refused: Exception) -> TopicError:
        if isinstance(refused, KafkaException):
            return self._explain(record, refused.args[0])
        if isinstance(refused, TopicError):
            return refused
        return TopicError(f"writing {record.key!r} to the topic {record.topic!r} failed: {refused}")

    def _explain(self, record: NewRecord, error: KafkaError) -> TopicError:
        if error.code() in _NO_RIGHT:
            return TopicRightsError(record.topic, "WRITE", self._principal)
        doing = f"writing {record.key!r} to the topic {record.topic!r}"
        if error.code() in _TIMED_OUT:
            return UnsureError(self._outage.servers, doing, self._outage.reason or error.str())
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return TooLargeError(
                f"{doing} failed: its size is beyond the topic's max.message.bytes, or {LARGEST_VALUE} before"
                " compression"
            )
        return TopicError(f"{doing} failed: {error.str()}")

    def _on_error(self, error: KafkaError) -> None:
        """Note an error of a connection. That all brokers are away is left to the reader; here, records fail."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            tell(self._outage, error)


def _settle(outcomes: Iterable[_Outcome]) -> None:
    for all_stored, failed in outcomes:
        if all_stored.done():
            continue  # the waiting caller was cancelled
        if failed is None:
            all_stored.set_result(None)
        else:
            all_stored.set_exception(failed)
