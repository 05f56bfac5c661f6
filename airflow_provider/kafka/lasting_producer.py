"""A producer that outlives what ends a producer of librdkafka."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_OVERDUE_S: Final = 5.0
"""How long after its delivery timeout to wait for a record's result. If the connection breaks at this moment,
librdkafka may keep the record for ever without a result.
"""
_ENDED: Final = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001

OnError = Callable[[KafkaError], None]
OnDelivery = Callable[["KafkaError | None", "Message | None"], None]


class _Given(NamedTuple):
    """A record that was given to librdkafka, when (monotonic seconds), and who waits for its result."""

    at: float
    delivered: OnDelivery


class LastingProducer:
    """A producer that is replaced when it can write no more: after a fatal error, which librdkafka never forgets, or
    when it has no result for a record. Each record has one result, from one or the other. Thread-safe.

    A record of a producer that was replaced may still be stored, even after later records.

    :param make: makes a producer that calls this for errors; may raise, then :meth:`produce` does
    :param on_error: called for each error of a connection
    :param delivery_timeout_ms: the producer's setting
    """

    def __init__(self, make: Callable[[OnError], Producer], *, on_error: OnError, delivery_timeout_ms: int) -> None:
        self._make: Final = make
        self._on_error: Final = on_error
        self._patience_s: Final = delivery_timeout_ms / 1000 + _OVERDUE_S
        self._lock: Final = threading.Lock()
        self._numbers: Final = itertools.count()
        self._waiting: dict[int, _Given] = {}
        """Records without a result, the oldest one first."""
        self._fatal: KafkaError | None = None
        self._producer: Producer | None = make(self._heard)

    def produce(self, topic: str, *, key: bytes, value: bytes | None, partition: int, delivered: OnDelivery) -> None:
        """Write a record.

        :param delivered: called with its result, in the thread that calls any of these methods
        :raises KafkaException: it is refused. ``delivered`` is not called
        :raises BufferError: too many records wait
        :raises Exception: what ``make`` raises, if a new producer is needed and can't be made
        """
        fatal = self._fatal
        if fatal is not None:
            self._give_up(fatal)
        number = next(self._numbers)
        with self._lock:
            if self._producer is None:
                self._producer = self._make(self._heard)
            self._waiting[number] = _Given(time.monotonic(), delivered)
            try:
                self._producer.produce(
                    topic,
                    key=key,
                    value=value,
                    partition=partition,
                    on_delivery=lambda error, message: self._settle(number, error, message),
                )
            except BaseException as refused:
                del self._waiting[number]
                if isinstance(refused, KafkaException):
                    self._note(refused.args[0])
                raise

    def poll(self, timeout_s: float) -> None:
        """Hand on results for at most this time, and give up a producer that can write no more."""
        producer = self._producer
        if producer is None:
            time.sleep(timeout_s)
            return
        try:
            producer.poll(timeout_s)
        except KafkaException as failed:
            self._fatal = failed.args[0]
        why = self._fatal or self._overdue()
        if why is not None:
            self._give_up(why)

    def connect(self, timeout_s: float) -> None:
        """Connect now. Otherwise the first record waits for half a second, until librdkafka asks again for an id.

        :raises KafkaException: no broker answers in time
        """
        if self._producer is not None:
            self._producer.list_topics(timeout=timeout_s)

    def flush(self, timeout_s: float) -> None:
        """Wait for the results of all records, for at most this time.

        :raises KafkaException: the producer can write no more
        """
        if self._producer is not None:
            self._producer.flush(timeout_s)

    def _overdue(self) -> KafkaError | None:
        with self._lock:
            oldest = next(iter(self._waiting.values()), None)
        if oldest is None or oldest.at + self._patience_s >= time.monotonic():
            return None
        return KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001

    def _give_up(self, why: KafkaError) -> None:
        """Fail all records without a result, and let the next record make a new producer. A result that the old one
        has after this is ignored.
        """
        with self._lock:
            given_up, self._producer, self._fatal = self._producer, None, None
            waiting, self._waiting = self._waiting, {}
        if given_up is not None:
            given_up.purge()
        for given in waiting.values():
            given.delivered(why, None)

    def _settle(self, number: int, error: KafkaError | None, message: Message | None) -> None:
        with self._lock:
            given, fatal = self._waiting.pop(number, None), self._fatal
        if given is not None:
            ended = error is not None and error.code() in _ENDED
            given.delivered(fatal if ended and fatal is not None else error, message)

    def _heard(self, error: KafkaError) -> None:
        self._note(error)
        self._on_error(error)

    def _note(self, error: KafkaError) -> None:
        if self._fatal is None and (error.fatal() or error.code() == KafkaError._FATAL):  # noqa: SLF001
            self._fatal = error
