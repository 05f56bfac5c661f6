"""The coordinator's machine, as those see it who do its I/O, and what it reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from airflow_provider.coordinator.desk import MadeOf, Untaken
from airflow_provider.coordinator.events import Effects, Event, ToBridge
from airflow_provider.declarative.wire.records import Record
from airflow_provider.protocol.model import Tasks
from airflow_provider.shards.requests import Write


class Machine(Protocol):
    """Of one shard (:class:`airflow_provider.coordinator.coordinator.Coordinator`)."""

    @property
    def session_ms(self) -> int:
        """What its members are granted if people have set nothing else."""

    def has_members(self, group_id: str) -> bool: ...

    def made_of(self, group_id: str) -> MadeOf:
        """What a target of the group would be made of."""

    def keep_target(self, group_id: str, untaken: Untaken) -> None:
        """Have a group go on with the target that it has, as no topic takes the next one. Before it is loaded."""

    def claims(self, group_id: str) -> Tasks: ...

    def to_bridge(self, group_id: str, asked: Tasks) -> ToBridge: ...

    def replay(self, record: Record) -> None: ...

    def loaded(self, now_ms: int) -> Effects: ...

    def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
        """Handle events that have come together. Each is taken when the one before it is handled: so whose fault it is
        that this raises, who gives them can tell.
        """


class ShardLog(Protocol):
    """What lies in Kafka of one shard. Blocks."""

    @property
    def forgotten(self) -> bool:
        """Whether there were records that are gone. Known when it is loaded."""

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
