"""Where requests, replies and records of declarative groups lie: three topics, and in which partition of each.

A *shard* is the groups whose ids fall into one partition. It is the same partition of the topics of requests and of
records, so whoever serves the shard writes what the next one to serve it reads.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.protocol.model import LocalProtocolError

REQUESTS_TOPIC: Final = "__worker_requests"
REPLIES_TOPIC: Final = "__worker_replies"
RECORDS_TOPIC: Final = "__worker_offsets"
"""Compacted. Kafka's own groups are in ``__consumer_offsets``, where what they are is beside their offsets."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_32_BITS: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def partition_of(name: str, partitions: int) -> int:
    """The partition of a group's shard.

    The hash is that of Kafka's partitioner (``toPositive(murmur2(key)) % partitions``) on the name in UTF-8, not that
    of its group coordinator (Java's ``hashCode``), which is made of UTF-16 units: every Kafka client has murmur2, so
    that a member in another language finds its shard, too.

    :param name: a group id
    :param partitions: how many the topic has. It must stay so: a group would lie where nobody looks for it
    :raises LocalProtocolError: a topic has at least one
    """
    if partitions < 1:
        raise LocalProtocolError(f"a topic of {partitions} partitions has no place for {name!r}")
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
