"""The data of one shard in Kafka: its records, and how far its requests are handled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError

from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.sharding import REQUESTS_TOPIC
from airflow_provider.group.declarative.server.errors import AbortedError, ShardError
from airflow_provider.group.declarative.server.shard_records.handled import Handled, Note, read_handled
from airflow_provider.group.declarative.server.shard_records.loading import read_records
from airflow_provider.group.declarative.server.shard_records.producer import ShardProducer
from airflow_provider.kafka.topics.administration.partition_ends import LatestOffsets

T = TypeVar("T")

_ANSWER_S: Final = 5.0
_AGAIN_S: Final = 0.2
_PATIENCE_S: Final = 30.0
_GENERATION_S: Final = 0.1
"""How long to wait after an aborted transaction, until the consumer knows the new generation of its group."""


class KafkaShardLog:
    """A :class:`~airflow_provider.group.declarative.server.ports.ShardLog` in Kafka, with a transactional producer.

    :param shards: how many there are, to be noted
    :param group: returns the present metadata of the consumer group
    :param renewed: whether the topic of records was created again since this process knew it
    :ivar forgotten: whether records have been lost; known when it is loaded. If so, ``granted_ms`` is the longest
        session that their members may have; 0: not known
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        shard: int,
        shards: int,
        *,
        group: Callable[[], object],
        renewed: bool,
    ) -> None:
        self._config = config
        self._shard = shard
        self._latest = LatestOffsets(config)
        self._group = group
        self._renewed = renewed
        self.forgotten = False
        self.granted_ms = 0
        self._given_up = threading.Event()
        self._producer = ShardProducer(config, shard, shards)

    def load(self) -> Iterator[tuple[bytes | None, bytes | None, int]]:
        self._producer.begin()
        ended = yield from read_records(self._config, self._shard, given_up=self._given_up.is_set)
        # A coordinator that began to write after records were lost has aborted the transaction. Then the topic does not
        # end at 0, although it has no records.
        note = Note(ended.at) if ended.found else self._handled().note
        self.forgotten = not ended.found and (note.recorded_to > 0 or self._renewed)
        # If only this process knows of the loss, the next one sees it by the requests that are handled from now on.
        self.granted_ms = note.granted_ms
        self._producer.go_on(ended.at, note.recorded_to or int(self.forgotten))

    def grants(self, session_ms: int) -> None:
        self._producer.grants(max(session_ms, self.granted_ms))

    def commit(self, writes: Sequence[Write], next_offset: int | None) -> None:
        try:
            self._producer.commit(writes, next_offset, self._group())
        except AbortedError:
            self._given_up.wait(_GENERATION_S)
            raise

    def handled_to(self) -> int:
        to = self._handled().to
        # The topic may have been created again, and its offset not yet be forgotten.
        return to if to and self._patiently(self.end) >= to else 0

    def _handled(self) -> Handled:
        return self._patiently(lambda: read_handled(self._config, self._shard))

    def _patiently(self, ask: Callable[[], T]) -> T:
        """While no broker can tell, this is asked again: loading the shard again would take longer, and what was loaded
        holds as long as nobody else begins.

        :raises ShardError: no broker could tell for half a minute, or this is given up
        """
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except ShardError:
                if time.monotonic() >= until or self._given_up.wait(_AGAIN_S):
                    raise

    def end(self) -> int:
        partition = REQUESTS_TOPIC, self._shard
        end = self._latest.ask((partition,), timeout_s=_ANSWER_S)[partition]
        if isinstance(end, KafkaError):
            raise ShardError(f"the end of shard {self._shard}'s requests is not known: {end.str()}")
        return end

    def give_up(self) -> None:
        self._given_up.set()
        self._producer.give_up()

    def close(self) -> None:
        self._latest.close()
        self._producer.close()
