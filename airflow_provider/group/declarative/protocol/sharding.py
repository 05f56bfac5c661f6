"""The topics of the requests, replies and records of declarative groups, and the partition of each group: what all
coordinators share.

A *shard* consists of the groups whose ids are hashed to one partition. The partition has the same number in the topics
of requests and of records, so each coordinator of the shard reads the records that the one before has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.values.model import LocalProtocolError

REQUESTS_TOPIC: Final = "__worker_requests"
REPLIES_TOPIC: Final = "__worker_replies"
RECORDS_TOPIC: Final = "__worker_offsets"
"""Compacted. It is named after ``__consumer_offsets``, where Kafka keeps its own groups beside their offsets."""

COORDINATORS: Final = "__worker_coordinators"
"""The consumer group of all coordinators of a cluster. Each serves the shards whose partitions it is assigned."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_32_BITS: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def transactional_id(shard: int) -> str:
    """The transactional id of the coordinator of this shard. Each one that begins fences the earlier ones."""
    return f"{COORDINATORS}-{shard}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The numbers of partitions.

    :param shards: those of the topics of requests and of records
    :param replies: those of the topic of replies
    """

    shards: int
    replies: int


DEFAULT_LAYOUT: Final = Layout(shards=4, replies=16)
"""One shard is enough for 10,000 members. There are several, so that more than one process can serve; and not more,
because each one needs a producer. There are more partitions of replies, because a reader of replies also reads those of
others in its partition.
"""


def partition_of(name: str, partitions: int) -> int:
    """The partition of a group's shard.

    The hash is that of Kafka's partitioner (``toPositive(murmur2(key)) % partitions``), of the name in UTF-8. Kafka's
    group coordinator uses Java's ``hashCode`` of UTF-16 units instead; but every Kafka client has murmur2, so that
    members in other languages can find their shard.

    :param name: a group id
    :param partitions: the number of partitions of the topic. It must not change, because then groups would not be found
    :raises LocalProtocolError: ``partitions`` is less than 1
    """
    if partitions < 1:
        raise LocalProtocolError(f"group {name!r}: a topic must have at least one partition, not {partitions}")
    return (_murmur2(name.encode()) & _POSITIVE) % partitions


def _murmur2(data: bytes) -> int:
    """Kafka's ``Utils.murmur2``, as an unsigned number."""
    mixed = _SEED ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _32_BITS
        k = (k ^ k >> _R) * _M & _32_BITS
        mixed = (mixed * _M & _32_BITS) ^ k
    if whole < len(data):
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * _M & _32_BITS
    mixed = (mixed ^ mixed >> 13) * _M & _32_BITS
    return mixed ^ mixed >> 15
