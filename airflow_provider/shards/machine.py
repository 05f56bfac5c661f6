"""The coordinator's machine, as those see it who do its I/O, and what it reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from airflow_provider.coordinator.events import Effects, Event
from airflow_provider.declarative.wire.records import Record
from airflow_provider.shards.requests import Write


class GroupLike(Protocol):
    @property
    def members(self) -> Collection[object]: ...


class Machine(Protocol):
    """Of one shard (:class:`airflow_provider.coordinator.coordinator.Coordinator`)."""

    @property
    def groups(self) -> Mapping[str, GroupLike]: ...

    def replay(self, record: Record) -> None: ...

    def loaded(self, now_ms: int) -> Effects: ...

    def handle(self, event: Event) -> Effects: ...


class ShardLog(Protocol):
    """What lies in Kafka of one shard. Blocks."""

    def load(self) -> Iterator[tuple[bytes | None, bytes | None, int]]:
        """Fence whoever has written before, then the key, the value and the offset of each record.

        :raises FencedError, ShardError: it can't be read
        """

    def commit(self, writes: Sequence[Write], next_offset: int | None) -> None:
        """Write all of this, and that the requests before ``next_offset`` are handled, or nothing.

        :raises AbortedError: nothing is written; what may have been in the way has had time to pass
        :raises FencedError, ShardError: it is not written, or that is not known
        """

    def handled_to(self) -> int:
        """The offset of the first request that is not handled. Once it is loaded, that is certain.

        :raises ShardError: nobody can tell
        """

    def end(self) -> int:
        """The offset that the next request will have.

        :raises ShardError: nobody can tell
        """

    def give_up(self) -> None:
        """Wait for brokers no longer. Any thread may call it."""

    def close(self) -> None: ...
