"""What lies in Kafka of a shard, in memory; and bridges that only note what is wanted of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from echo_machine import heartbeat_of

from airflow_provider.group.declarative.coordinator.events import BridgeAsks, BridgeClaims, ToBridge
from airflow_provider.group.declarative.protocol.exchange import RawRequest, Write
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    Reply,
    RequestBody,
    decode_reply,
    encode_request,
    request_of,
)
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.migration.bridges import PutWord
from airflow_provider.values.model import Tasks

READER = b"reader"


class MemoryLog:
    """What lies in Kafka, and what goes wrong there: the next errors, in their order.

    :ivar unknown: those errors after which everything has been written all the same
    :ivar forgotten: whether there were records that are gone
    :ivar granted_ms: the longest session that is noted
    :ivar fails_to_load: what goes wrong there, too
    :ivar end_fails: whether the end can't be asked for at present
    :ivar loads: set, unless it is to wait until then
    """

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.unknown: list[Exception] = []
        self.committed: list[tuple[list[Write], int | None]] = []
        self.opened = 0
        self.ends_at = 0
        self.asked_for_end = 0
        self.forgotten = False
        self.granted_ms = 0
        self.fails_to_load: list[Exception] = []
        self.end_fails = False
        self.loads = threading.Event()
        self.loads.set()

    def load(self) -> Iterator[tuple[bytes | None, bytes | None, int]]:
        self.opened += 1
        self.loads.wait()
        if self.fails_to_load:
            raise self.fails_to_load.pop(0)
        for offset, write in enumerate(self.records):
            yield write.key, write.value, offset

    def grants(self, session_ms: int) -> None:
        self.granted_ms = session_ms

    def commit(self, writes: Sequence[Write], next_offset: int | None) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is None or error in self.unknown:
            self.committed.append((list(writes), next_offset))
        if error is not None:
            raise error

    def handled_to(self) -> int:
        return max((offset for _, offset in self.committed if offset is not None), default=0)

    def end(self) -> int:
        self.asked_for_end += 1
        if self.end_fails:
            raise ShardError("the end is not known")
        return self.ends_at

    def give_up(self) -> None:
        self.loads.set()

    def close(self) -> None: ...

    @property
    def writes(self) -> list[Write]:
        return [write for writes, _ in list(self.committed) for write in writes]

    @property
    def records(self) -> list[Write]:
        return [write for write in self.writes if write.topic == RECORDS_TOPIC]

    @property
    def replies(self) -> list[Reply]:
        return [decode_reply(write.value or b"") for write in self.writes if write.topic == REPLIES_TOPIC]

    @property
    def answers(self) -> dict[int, tuple[int, int]]:
        """Error code and epoch, by correlation id."""
        bodies = {reply.header.correlation_id: reply.body for reply in self.replies}
        return {number: (body.error_code, getattr(body, "member_epoch", 0)) for number, body in bodies.items()}


class Bridges:
    """Notes what the shard wants of them.

    :ivar put: takes what the one says that was opened last
    """

    def __init__(self) -> None:
        self.put: PutWord
        self.opened: list[tuple[str, Tasks]] = []
        self.closed: list[str] = []
        self.told: list[ToBridge] = []
        self.asked = BridgeAsks()

    def open(self, group: str, claims: BridgeClaims, put: PutWord) -> None:
        self.opened.append((group, claims.tasks))
        self.put = put

    def asks(self, group: str) -> BridgeAsks:
        return self.asked

    def tell(self, group: str, asked: BridgeAsks, answer: ToBridge) -> None:
        self.told.append(answer)

    def close(self, group: str, put: PutWord) -> None:
        self.closed.append(group)


def raw(offset: int, member: str = "m", *, group: str = "etl", body: RequestBody | None = None) -> RawRequest:
    """A request whose correlation id is its offset."""
    request = request_of(body or heartbeat_of(group, member), correlation_id=offset, reply_partition=1)
    return RawRequest(offset, READER, encode_request(request))
