"""Writes records: one producer and one thread for all groups of a connection in this process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.kafka.settings import principal_of
from airflow_provider.records.envelope import LARGEST_VALUE
from airflow_provider.topics.client_errors import tell
from airflow_provider.topics.errors import TooLargeError, TopicError, TopicRightsError, UnsureError
from airflow_provider.topics.librdkafka import COMMON, make_client
from airflow_provider.topics.outage import Outage

_POLL_S: Final = 0.1
_LINGER_MS: Final = 5
_FLUSH_S: Final = 5.0
_CONNECT_S: Final = 1.0
_DELIVERY_TIMEOUT_MS: Final = 30_000
_PROPAGATION_MS: Final = 5_000
_OVERDUE_S: Final = 5.0
"""How long after its delivery timeout a record may wait. If its connection breaks just then, librdkafka may keep a
record for ever, and says nothing."""
_NO_RIGHT: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_FATAL: Final = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001
_TIMED_OUT: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})  # noqa: SLF001


class NewRecord(NamedTuple):
    """A record to be written; no value deletes the key."""

    topic: str
    key: str
    value: bytes | None


class _Given(NamedTuple):
    """A record that librdkafka was given.

    :ivar at: when (monotonic)
    """

    record: NewRecord
    stored: Callable[[int, TopicError | None], None]
    at: float


_Outcome = tuple["asyncio.Future[None]", "TopicError | None"]


class TopicWriter:
    """Writes records so that each is stored once, in the order of the calls, on all replicas that are in sync.

    :param config: librdkafka's settings of the connection
    :param outage: knows why a broker does not answer
    :param delivery_timeout_ms: a record that isn't stored by then fails
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
            "acks": "all",
            "enable.idempotence": True,
            # What one turn of an event loop has to say goes in one request, not in one for each record.
            "linger.ms": _LINGER_MS,
            "compression.type": "gzip",
            "message.max.bytes": LARGEST_VALUE,
            "delivery.timeout.ms": delivery_timeout_ms,
            # After that no record waits for a topic that does not exist; the topics were there when this began.
            "topic.metadata.propagation.max.ms": _PROPAGATION_MS,
            "error_cb": self._on_error,
        }
        self._patience_s = delivery_timeout_ms / 1000 + _OVERDUE_S
        self._lock = threading.Lock()
        self._outcomes_lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, _Given] = {}
        """What is not settled, the oldest one first."""
        self._outcomes: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
        self._producer = make_client(Producer, self._config)
        self._fatal: KafkaError | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cospark-topic-writer", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: str, value: bytes | None) -> Future[int]:
        """Write one record; no value deletes the key.

        :returns: a future of the record's offset, which fails with a :class:`TopicError`
        """
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()

        def stored(offset: int, error: TopicError | None) -> None:
            if error is None:
                future.set_result(offset)
            else:
                future.set_exception(error)

        self._produce(NewRecord(topic, key, value), stored)
        return future

    def write(self, *records: NewRecord) -> asyncio.Future[None]:
        """Write these.

        :returns: a future of the running loop: done when all are stored, failed with a :class:`TopicError` if one
            could not be
        """
        loop = asyncio.get_running_loop()
        all_stored: asyncio.Future[None] = loop.create_future()
        left, failed = len(records), None

        def stored(_offset: int, error: TopicError | None) -> None:
            nonlocal left, failed
            with self._outcomes_lock:
                left, failed = left - 1, failed or error
                if not left:
                    self._outcomes.setdefault(loop, []).append((all_stored, failed))

        for record in records:
            self._produce(record, stored)
        if not left:
            self._tell()  # refused already, perhaps
        return all_stored

    def _produce(self, record: NewRecord, stored: Callable[[int, TopicError | None], None]) -> None:
        number = next(self._numbers)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if self._settled(number) is None:
                return  # it was given up
            if error is None:
                self._outage.is_back()
                stored(message.offset() or 0, None)
            else:
                stored(0, self._explain(record, error))

        try:
            self._give(number, _Given(record, stored, time.monotonic()), delivered)
        except (KafkaException, BufferError, TopicError) as refused:
            if self._settled(number) is not None:
                stored(0, self._explain_refusal(record, refused))

    def _give(self, number: int, given: _Given, delivered: Callable[[KafkaError | None, Message], None]) -> None:
        """Give it to the producer, which nobody replaces meanwhile: a producer that is replaced says nothing more."""
        topic, key, value = given.record
        name = key.encode()
        with self._lock:
            with self._outcomes_lock:
                self._waiting[number] = given
            self._live_producer().produce(topic, key=name, value=value, partition=0, on_delivery=delivered)

    def _settled(self, number: int) -> _Given | None:
        """None: somebody else has settled it."""
        with self._outcomes_lock:
            return self._waiting.pop(number, None)

    def _tell(self) -> None:
        """Wake each loop once for all that is stored by now: a call into another thread's loop costs a system call."""
        with self._outcomes_lock:
            outcomes_of, self._outcomes = self._outcomes, {}
        for loop, outcomes in outcomes_of.items():
            with contextlib.suppress(RuntimeError):  # it is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, outcomes)

    def close(self) -> None:
        """Write what is still to be written, for at most 5 s, and stop; returns when the thread has ended."""
        with contextlib.suppress(KafkaException):
            self._producer.flush(_FLUSH_S)
        self._tell()
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
            if self._is_overdue():
                self._give_up_overdue()
            self._tell()

    def _is_overdue(self) -> bool:
        with self._outcomes_lock:
            oldest = next(iter(self._waiting.values()), None)
        return oldest is not None and oldest.at + self._patience_s < time.monotonic()

    def _give_up_overdue(self) -> None:
        """Fail all that waits, and go on with a new producer: with the old one, a record could still be stored, after
        later ones. What that one says of its records, if anything, counts no more.
        """
        timed_out = KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001
        with self._lock:
            with self._outcomes_lock:
                waiting, self._waiting = self._waiting, {}
            self._producer.purge()
            try:
                self._producer = make_client(Producer, self._config)
            except TopicError:
                self._fatal = timed_out  # who writes next tries again, and hears why
        for given in waiting.values():
            given.stored(0, self._explain(given.record, timed_out))

    def _live_producer(self) -> Producer:
        """The producer; a new one if it has met a fatal error, after which it writes nothing any more. Call it with the
        lock.

        Fatal is, for one, that the user may not write to any topic: then it gets no id.

        :raises TopicError: if there can be no new one at present
        """
        if self._fatal is not None:
            _discard(self._producer)
            self._tell()
            self._producer = make_client(Producer, self._config)
            self._fatal = None
        return self._producer

    def _explain_refusal(self, record: NewRecord, refused: Exception) -> TopicError:
        if isinstance(refused, KafkaException):
            return self._explain(record, refused.args[0])
        if isinstance(refused, TopicError):
            return refused
        return TopicError(f"writing {record.key!r} to the topic {record.topic!r} failed: {refused}")

    def _explain(self, record: NewRecord, error: KafkaError) -> TopicError:
        if error.code() in _FATAL and self._fatal is not None:
            error = self._fatal
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
        """The reader says when brokers are away; here it shows in the record that was not written."""
        if error.fatal():
            self._fatal = error
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            tell(self._outage, error)


def _settle(outcomes: Iterable[_Outcome]) -> None:
    for all_stored, failed in outcomes:
        if all_stored.done():
            continue  # who waited has been cancelled
        if failed is None:
            all_stored.set_result(None)
        else:
            all_stored.set_exception(failed)


def _discard(producer: Producer) -> None:
    """Fail what it has not written, so that those who wait for it hear of it."""
    producer.purge()
    with contextlib.suppress(KafkaException):
        producer.flush(_FLUSH_S)
