"""How shards are served, and by which names of Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

COORDINATORS: Final = "__worker_coordinators"
"""The consumer group of all coordinators of a cluster. Who has a partition of the requests serves that shard."""


def transactional_id(shard: int) -> str:
    """Of whoever serves this shard: the last one to begin fences those before it."""
    return f"{COORDINATORS}-{shard}"


class ConsumerProtocol(str, Enum):
    """How coordinators find out who serves which shard, and how soon another one serves those of one that has died."""

    CONSUMER = "consumer"
    """KIP-848: after the brokers' ``group.consumer.session.timeout.ms``, 45 s by default, which clients can't lower."""
    CLASSIC = "classic"
    """After 10 s, as the clients say. While coordinators come and go there are transactions to be tried again."""

    def consumer(self) -> dict[str, str | int]:
        """What librdkafka's consumer needs for it."""
        if self is ConsumerProtocol.CONSUMER:
            return {"group.protocol": "consumer"}
        return {
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": _SESSION_MS,
            "heartbeat.interval.ms": _SESSION_MS // 10,
        }


_SESSION_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How many partitions the topics have.

    :param shards: of requests and of records
    :param replies: of replies
    """

    shards: int
    replies: int


DEFAULT_LAYOUT: Final = Layout(shards=4, replies=16)
"""One shard does for 10,000 members; several so that more than one process can serve. A coordinator that serves a shard
has a producer for it, so that not more are made. A reader of replies also reads what is for others in its partition.
"""
