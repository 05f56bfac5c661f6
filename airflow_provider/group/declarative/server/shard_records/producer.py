"""Writes the transactions of one shard: everything that a batch of requests leads to, or nothing of it."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the builtin one only since Python 3.11
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REQUESTS_TOPIC, transactional_id
from airflow_provider.group.declarative.server.errors import AbortedError, FencedError, OversizedError, ShardError
from airflow_provider.group.declarative.server.shard_records.handled import Note
from airflow_provider.kafka.lasting_producer import fatal_error_of
from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.errors import RightsError
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.state.records.envelope import LARGEST_VALUE

_TRANSACTION_TIMEOUT_MS: Final = 10_000
"""The time after which the broker aborts the transaction of a dead coordinator, if no other one has taken over. Until
then, consumers do not read what comes after it in the same partitions.
"""
_CALL_S: Final = 5.0
_HANGS_S: Final = 8.0
"""How long a call may take. If a broker was killed, librdkafka may never return from sending offsets."""
_ROOM_S: Final = 0.05
_BACKOFF_MS: Final = 2
"""The first backoff. It doubles with each try, up to a second."""
_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)


class _Caller:
    """Makes calls in a thread of its own, so that a call that does not return can be abandoned."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[None]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, call: Callable[[], Any], timeout_s: float) -> None:
        """Make a call, and wait for it.

        :raises TimeoutError: it has not returned in time; it may do so later
        """
        done: Future[None] = Future()
        self._calls.put((call, done))
        done.result(timeout_s)

    def close(self) -> None:
        self._calls.put(None)

    def _run(self) -> None:
        while (asked := self._calls.get()) is not None:
            call, done = asked
            try:
                call()
            except BaseException as failed:  # noqa: BLE001  it is raised in the thread that has made the call
                done.set_exception(failed)
            else:
                done.set_result(None)


class ShardProducer:
    """The transactional producer of one shard. Only one thread may use it, except for :meth:`give_up`.

    :param config: librdkafka's settings of the connection
    :param shards: how many there are, to be noted with handled requests
    :raises TopicError: if librdkafka refuses the settings
    """

    def __init__(self, config: Mapping[str, Any], shard: int, shards: int) -> None:
        self._shard = shard
        self._shards = shards
        self._user = principal_of(config)
        self._given_up = threading.Event()
        self._oversized: OversizedError | None = None
        self._next_record = 0
        self._recorded_to = 0
        self._granted_ms = 0
        self._overwrites = False
        self._producer = make_client(
            Producer,
            {
                **config,
                **COMMON,
                "transactional.id": transactional_id(shard),
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                # Neither of these may be longer than the transaction.
                "delivery.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "socket.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                # The end of a transaction sends everything at once; records wait for it only this long.
                "linger.ms": 1,
                # While a broker still ends the last transaction, it refuses the next one for a few milliseconds.
                "retry.backoff.ms": _BACKOFF_MS,
                "compression.type": "lz4",
                "message.max.bytes": LARGEST_VALUE,
            },
        )
        self._caller = _Caller(f"cospark-shard-{shard}-producer")

    def begin(self) -> None:
        """Fence earlier coordinators of the shard. When this returns, their unfinished transactions are aborted.

        :raises FencedError: another coordinator has begun in the meantime
        :raises RightsError: the user may not use this transactional id
        :raises ShardError: this is not possible
        """
        self._persist(lambda: self._producer.init_transactions(_CALL_S))

    def grants(self, session_ms: int) -> None:
        """Note the longest session that is granted, with the requests that are handled from now on."""
        self._granted_ms = session_ms

    def go_on(self, end: int, recorded_to: int) -> None:
        """Continue after the existing records.

        :param end: where they end
        :param recorded_to: where they once ended. It is committed with handled requests until there are new records
        """
        self._next_record, self._recorded_to = end, recorded_to

    def commit(self, writes: Sequence[Write], next_offset: int | None, group: object) -> None:
        """Write all of this, and that the requests before ``next_offset`` are handled, in one transaction.

        The offset is sent first. If the broker has not ended the last transaction yet, librdkafka tries this again
        after ``retry.backoff.ms``; to add a partition, only after 20 ms, whatever is set.

        :param group: the consumer group's metadata. The broker refuses that of an earlier generation
        :raises FencedError: another coordinator serves the shard; this has had no effect
        :raises OversizedError: a topic does not take a record of this size; this has had no effect
        :raises AbortedError: this has had no effect
        :raises ShardError: earlier records were lost, and this has had no effect; or it is not known whether it has
        """
        self._oversized = None
        try:
            self._producer.begin_transaction()
            if next_offset is not None:
                note = Note(self._recorded_to, self._shards, self._granted_ms).written()
                offsets = [TopicPartition(REQUESTS_TOPIC, self._shard, next_offset, metadata=note)]
                self._persist(lambda: self._producer.send_offsets_to_transaction(offsets, group, _CALL_S))
            for write in writes:
                self._produce(write)
            if any(write.topic == RECORDS_TOPIC for write in writes):
                self._check_nothing_lost()
            self._persist(lambda: self._producer.commit_transaction(_CALL_S))
        except (KafkaException, SystemError) as failed:
            error = fatal_error_of(failed)
            if self._oversized is not None:
                self._abort()
                raise self._oversized from failed
            if not error.txn_requires_abort():
                raise ShardError(f"writing for shard {self._shard} failed: {error.str()}") from failed
            self._abort()
            raise AbortedError(f"a transaction of shard {self._shard} was aborted: {error.str()}") from failed

    def give_up(self) -> None:
        """Stop waiting for brokers. Any thread may call it."""
        self._given_up.set()

    def close(self) -> None:
        """Close the producer, without an end of an unfinished transaction."""
        self._caller.close()
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(0)

    def _abort(self) -> None:
        try:
            self._persist(lambda: self._producer.abort_transaction(_CALL_S))
        except KafkaException as failed:
            raise ShardError(f"aborting a transaction of shard {self._shard} failed: {failed}") from failed

    def _check_nothing_lost(self) -> None:
        """Check by the offsets of new records that no earlier ones were lost: the new ones would be taken for all.

        :raises ShardError: records were lost; the transaction is aborted
        """
        self._persist(self._flush)
        if self._overwrites:
            self._abort()
            raise ShardError(
                f"the records of shard {self._shard} are gone: the topic {RECORDS_TOPIC!r} was deleted and created"
                " again"
            )

    def _flush(self) -> None:
        """Wait until all records are stored, so that their offsets are known.

        :raises KafkaException: not all are stored yet
        """
        if self._producer.flush(_CALL_S):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a record is not stored yet", retriable=True))  # noqa: SLF001

    def _produce(self, write: Write) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            """Note the offset, or that it is too large: for the broker after compression, for librdkafka before."""
            if error is None and write.topic == RECORDS_TOPIC:
                self._stored_at(message.offset() or 0)
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._oversized = OversizedError(
                    f"{len(write.value or b'')} bytes are more than the topic {write.topic!r} takes in one record"
                    f" (its max.message.bytes, or {LARGEST_VALUE} before compression): a group of shard {self._shard}"
                    " has too many workers and tasks; make it smaller, or raise the limit of the topic"
                )

        while True:
            try:
                self._producer.produce(write.topic, write.value, write.key, write.partition, on_delivery=delivered)
                return
            except KafkaException as refused:
                delivered(refused.args[0], None)  # type: ignore[arg-type]  # there is none
                raise
            except BufferError:  # librdkafka's queue is full
                self._producer.poll(_ROOM_S)

    def _stored_at(self, offset: int) -> None:
        self._overwrites |= offset < self._next_record
        self._next_record = self._recorded_to = offset + 1

    def _persist(self, call: Callable[[], Any]) -> None:
        """Make a call, and try it again after errors that may pass, but not longer than a transaction may last.

        :raises FencedError, ShardError: it has failed
        :raises KafkaException: it has failed, and the transaction has to be aborted
        """
        give_up_at = time.monotonic() + _TRANSACTION_TIMEOUT_MS / 1000
        while True:
            try:
                self._caller.call(call, _HANGS_S)
                return
            except FutureTimeoutError as hanging:
                raise ShardError(f"the producer of shard {self._shard} hangs; it will be replaced") from hanging
            except (KafkaException, SystemError) as failed:
                error = fatal_error_of(failed)
                if error.code() in _FENCED:
                    raise FencedError(f"another coordinator serves shard {self._shard} now: {error.str()}") from failed
                if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    right = Right(transactional_id(self._shard), Operation.WRITE, "transactional id")
                    raise RightsError((right,), self._user) from failed
                if error.fatal():
                    raise ShardError(f"the producer of shard {self._shard} is broken: {error.str()}") from failed
                if error.txn_requires_abort():
                    raise
                if not error.retriable() or self._given_up.is_set() or time.monotonic() > give_up_at:
                    raise ShardError(f"shard {self._shard}: {error.str()}") from failed
                time.sleep(_ROOM_S)
