"""A producer that outlives what ends a producer of librdkafka.

confluent-kafka raises a fatal error in the midst of a call that serves callbacks (``poll``, ``flush``,
``commit_transaction``), and goes on to call them. The first function in C that such a callback calls then fails with a
SystemError, perhaps after it has had its effect: a lock that was taken is never released. So callbacks do nothing here
but note results.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider.kafka.destroying import destroy_apart

_OVERDUE_S: Final = 5.0
"""How long after its delivery timeout to wait for a record's result. If the connection breaks at this moment,
librdkafka may keep the record for ever without a result.
"""

OnDelivery = Callable[["KafkaError | None", "Message | None"], None]


def fatal_error_of(raised: KafkaException | SystemError) -> KafkaError:
    """The error that a call of librdkafka has raised; for a SystemError, the fatal error that was raised before it."""
    cause: BaseException | None = raised
    while cause is not None and not isinstance(cause, KafkaException):
        cause = cause.__cause__ or cause.__context__
    return KafkaError(KafkaError._FATAL, str(raised), fatal=True) if cause is None else cause.args[0]  # noqa: SLF001


class _Given(NamedTuple):
    """A record that was given to librdkafka, when (monotonic seconds), and who waits for its result."""

    at: float
    delivered: OnDelivery


class _Client:
    """A producer that is destroyed in a thread of its own, when no call is under way. Nobody else may keep it, not even
    in a local variable: whoever drops it last destroys it.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer: Producer | None = producer
        self._calls: Final = threading.Condition()
        self._under_way = 0

    def produce(self, topic: str, **record: Any) -> None:
        """Take a record. Not after :meth:`discard`, and not beside it."""
        assert self._producer is not None
        self._producer.produce(topic, **record)

    def poll(self, timeout_s: float) -> None:
        with self._call():
            if self._producer is not None:
                self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        with self._call():
            if self._producer is not None:
                self._producer.flush(timeout_s)

    def connect(self, timeout_s: float) -> None:
        with self._call():
            if self._producer is not None:
                self._producer.list_topics(timeout=timeout_s)

    def discard(self) -> None:
        """Drop what is not written yet, and destroy the producer. Does not wait for that. May be called once."""
        assert self._producer is not None
        self._producer.purge()
        destroy_apart(self._destroy)

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._calls:
            self._under_way += 1
        try:
            yield
        finally:
            with self._calls:
                self._under_way -= 1
                self._calls.notify_all()

    def _destroy(self) -> None:
        with self._calls:
            self._calls.wait_for(lambda: not self._under_way)
            producer, self._producer = self._producer, None
        del producer  # without the lock, because this may take long


class LastingProducer:
    """A producer that is replaced when it can write no more: after a fatal error, which librdkafka never forgets, or
    when it has no result for a record. Thread-safe.

    Each record has one result. If its producer is replaced before there is one, it has failed. It may still be stored
    then, even after later records.

    :param make: makes a producer; may raise, then :meth:`produce` does
    :param delivery_timeout_ms: the producer's setting
    """

    def __init__(self, make: Callable[[], Producer], *, delivery_timeout_ms: int) -> None:
        self._make: Final = make
        self._patience_s: Final = delivery_timeout_ms / 1000 + _OVERDUE_S
        self._lock: Final = threading.Lock()
        self._numbers: Final = itertools.count()
        self._waiting: dict[int, _Given] = {}
        """Records without a result, the oldest one first."""
        self._results: Final[dict[int, tuple[KafkaError | None, Message | None]]] = {}
        """Results that are not handed on yet, in their order."""
        self._client: _Client | None = _Client(make())

    def produce(self, topic: str, *, key: bytes, value: bytes | None, partition: int, delivered: OnDelivery) -> None:
        """Write a record.

        :param delivered: called with its result, in the thread that calls any of these methods
        :raises KafkaException: it is refused. ``delivered`` is not called
        :raises BufferError: too many records wait
        :raises Exception: what ``make`` raises, if a new producer is needed and can't be made
        """
        if not self._give(topic, key, value, partition, delivered):
            self._give(topic, key, value, partition, delivered)

    def _give(self, topic: str, key: bytes, value: bytes | None, partition: int, delivered: OnDelivery) -> bool:
        """Give a record to the present producer. If an earlier record has ended this one, it does not take it, and the
        next one will.

        :returns: whether the record was taken
        """
        number, results = next(self._numbers), self._results

        def settled(error: KafkaError | None, message: Message | None) -> None:
            results[number] = error, message

        with self._lock:
            if self._client is None:
                self._client = _Client(self._make())
            client = self._client
            self._waiting[number] = _Given(time.monotonic(), delivered)
            try:
                client.produce(
                    topic,
                    key=key,
                    value=value,
                    partition=partition,
                    on_delivery=settled,
                )
            except BaseException as refused:
                del self._waiting[number]
                why = refused.args[0] if isinstance(refused, KafkaException) else None
                if why is None or why.code() != KafkaError._FATAL:  # noqa: SLF001
                    raise
            else:
                return True
        self._give_up(client, why)
        return False

    def poll(self, timeout_s: float) -> None:
        """Hand on results for at most this time, and give up a producer that can write no more."""
        client = self._client
        if client is None:
            time.sleep(timeout_s)
            return
        try:
            client.poll(timeout_s)
        except (KafkaException, SystemError) as ended:
            self._hand_on()
            self._give_up(client, fatal_error_of(ended))
        else:
            self._hand_on()
            if self._is_overdue():
                self._give_up(client, KafkaError(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001

    def connect(self, timeout_s: float) -> None:
        """Connect now. Otherwise the first record waits for half a second, until librdkafka asks again for an id.

        :raises KafkaException: no broker answers in time
        """
        client = self._client
        if client is not None:
            client.connect(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Wait for the results of all records, for at most this time. Those that have none by then have failed."""
        client, why = self._client, KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001
        if client is None:
            return
        try:
            client.flush(timeout_s)
        except (KafkaException, SystemError) as ended:
            why = fatal_error_of(ended)
        self._hand_on()
        self._give_up(client, why)

    def _is_overdue(self) -> bool:
        with self._lock:
            oldest = next(iter(self._waiting.values()), None)
        return oldest is not None and oldest.at + self._patience_s < time.monotonic()

    def _give_up(self, client: _Client, why: KafkaError) -> None:
        """Fail all records without a result, and let the next record make a new producer. A result that the old one
        has after this is ignored. This has no effect if the producer was replaced already.
        """
        with self._lock:
            if self._client is not client:
                return
            self._client = None
            waiting, self._waiting = self._waiting, {}
        client.discard()
        for given in waiting.values():
            given.delivered(why, None)

    def _hand_on(self) -> None:
        """Tell those who wait for them the results that librdkafka has told."""
        with self._lock:
            told = [(self._waiting.pop(number, None), self._results.pop(number)) for number in tuple(self._results)]
        for given, result in told:
            if given is not None:
                given.delivered(*result)
