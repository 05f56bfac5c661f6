"""The ports of the code that serves a shard: the coordinator's state machine, and the shard's data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from airflow_provider.group.declarative.coordinator.events import BridgeClaims, Effects, Event, ToBridge
from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import MemberId, Tasks


class Machine(Protocol):
    """The state machine of one shard
    (:class:`airflow_provider.group.declarative.coordinator.coordinator.Coordinator`).
    """

    @property
    def session_ms(self) -> int:
        """The default session of its groups."""

    @property
    def shortest_session_ms(self) -> int:
        """The shortest session of any of its groups."""

    @property
    def longest_session_ms(self) -> int:
        """The longest session that a member of any of its groups may have."""

    def has_members(self, group_id: str) -> bool: ...

    def instance_of(self, group_id: str, member_id: MemberId) -> str | None:
        """The instance id of a member. None: it has none, or is not known."""

    def claims(self, group_id: str) -> BridgeClaims: ...

    def to_bridge(self, group_id: str, asked: Tasks) -> ToBridge: ...

    def replay(self, record: Record) -> None: ...

    def loaded(self, now_ms: int) -> Effects: ...

    def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
        """Handle events that have arrived together. Each is taken from the iterator when the one before is handled, so
        that the caller knows which event an exception belongs to.
        """


class ShardLog(Protocol):
    """The data of one shard in Kafka. Its methods block."""

    @property
    def forgotten(self) -> bool:
        """Whether records have been lost. Known when it is loaded."""

    @property
    def granted_ms(self) -> int:
        """The longest session that members whose records have been lost may have; 0: not known."""

    def grants(self, session_ms: int) -> None:
        """Note the longest session of any member, with the next requests that are handled."""

    def load(self) -> Iterator[tuple[bytes | None, bytes | None, int]]:
        """Fence earlier writers, then read the key, the value and the offset of each record.

        :raises FencedError, ShardError: the records can't be read
        """

    def commit(self, writes: Sequence[Write], next_offset: int | None) -> None:
        """Write all of this, and that the requests before ``next_offset`` are handled, or nothing.

        :raises AbortedError: nothing was written. The call has waited, so that it may be tried again immediately
        :raises FencedError, ShardError: nothing was written, or this is not known
        """

    def handled_to(self) -> int:
        """The offset of the first request that is not handled. It is certain when the records are loaded. 0: all that
        are there are to be handled.

        :raises ShardError: no broker can tell
        """

    def end(self) -> int:
        """The offset of the next request that will be written.

        :raises ShardError: no broker can tell
        """

    def give_up(self) -> None:
        """Stop waiting for brokers. Any thread may call it."""

    def close(self) -> None: ...
