"""How shards are served, and by which names of Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COORDINATORS: Final = "__worker_coordinators"
"""The consumer group of all coordinators of a cluster. Who has a partition of the requests serves that shard."""


def transactional_id(shard: int) -> str:
    """Of whoever serves this shard: the last one to begin fences those before it."""
    return f"{COORDINATORS}-{shard}"


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
