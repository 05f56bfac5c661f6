"""One shard's data in Kafka: requests, replies and records, with transactions as in a broker.

A transaction takes effect as a whole or not at all, and only from the latest writer: earlier ones are fenced. The
offset of the handled requests is part of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from airflow_provider.group.declarative.protocol.exchange import RawRequest, Write
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC
from airflow_provider.group.declarative.protocol.wire.messages.apis import Reply, decode_reply
from airflow_provider.group.declarative.server.errors import AbortedError, FencedError, ShardError

KeyAndValue = tuple[bytes | None, bytes | None]


class Fault(Enum):
    """The fate of a transaction."""

    ABORTED = "aborted"
    """It has no effect, and its writer knows that."""
    LOST = "lost"
    """It has no effect, and its writer does not know that."""
    UNKNOWN = "unknown"
    """It takes effect, and its writer does not know that."""


class ShardTopics:
    """One shard.

    :param committed: called with the records of each transaction
    :param replied: called with each reply, and its key
    :ivar requests: all of them
    :ivar handled_to: the offset of the first request that is not handled
    :ivar writer: the number of the latest writer
    :ivar faults: the fates of the next transactions
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        committed: Callable[[Sequence[KeyAndValue]], None],
        replied: Callable[[bytes, Reply], None],
    ) -> None:
        self.requests: list[RawRequest] = []
        self.handled_to = 0
        self.writer = 0
        self.faults: list[Fault] = []
        self.transactions = 0
        self._records: list[KeyAndValue] = []
        self._rng = rng
        self._committed = committed
        self._replied = replied

    def ask(self, reader: bytes, value: bytes) -> None:
        self.requests.append(RawRequest(len(self.requests), reader, value))

    def records(self) -> Sequence[KeyAndValue]:
        """As compacted so far: everything, or the last record of each key, with or without tombstones."""
        how = self._rng.randrange(3)
        if how == 0:
            return list(self._records)
        last: dict[bytes | None, bytes | None] = {}
        for key, value in self._records:
            last.pop(key, None)
            last[key] = value
        return [(key, value) for key, value in last.items() if how == 1 or value is not None]

    def commit(self, writer: int, writes: Sequence[Write], handled_to: int | None, *, is_owner: bool) -> None:
        """
        :param is_owner: of the shard, by the consumer group: a broker accepts offsets from nobody else
        :raises ShardError: if it has no effect, or that is not known
        """
        if writer != self.writer:
            raise FencedError("somebody else has begun to write")
        if handled_to is not None and not is_owner:
            raise AbortedError("the consumer group has given the shard to somebody else")
        fault = self.faults.pop(0) if self.faults else None
        if fault is Fault.ABORTED:
            raise AbortedError("the transaction was aborted")
        if fault is not Fault.LOST:
            self._apply(writes, handled_to)
        if fault is not None:
            raise ShardError("nobody knows what has become of the transaction")

    def _apply(self, writes: Sequence[Write], handled_to: int | None) -> None:
        self.transactions += 1
        if handled_to is not None:
            self.handled_to = handled_to
        records = [(write.key, write.value) for write in writes if write.topic == RECORDS_TOPIC]
        self._records += records
        self._committed(records)
        for write in writes:
            if write.topic == REPLIES_TOPIC and write.key is not None:
                self._replied(write.key, decode_reply(write.value or b""))


class SimulatedLog:
    """The shard as one coordinator sees it (a :class:`~airflow_provider.group.declarative.server.ports.ShardLog`)."""

    forgotten = False
    granted_ms = 0

    def __init__(self, topics: ShardTopics, is_owner: Callable[[], bool]) -> None:
        self._topics = topics
        self._is_owner = is_owner
        self._writer = -1

    @property
    def is_fenced(self) -> bool:
        return self._writer != self._topics.writer

    def load(self) -> Iterator[tuple[bytes | None, bytes | None, int]]:
        self._topics.writer += 1
        self._writer = self._topics.writer
        for offset, (key, value) in enumerate(self._topics.records()):
            yield key, value, offset

    def grants(self, session_ms: int) -> None: ...

    def commit(self, writes: Sequence[Write], next_offset: int | None) -> None:
        self._topics.commit(self._writer, writes, next_offset, is_owner=self._is_owner())

    def handled_to(self) -> int:
        return self._topics.handled_to

    def end(self) -> int:
        return len(self._topics.requests)

    def give_up(self) -> None: ...

    def close(self) -> None: ...
