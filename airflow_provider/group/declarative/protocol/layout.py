"""Names and partitions in Kafka that all coordinators share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COORDINATORS: Final = "__worker_coordinators"
"""The consumer group of all coordinators of a cluster. Each serves the shards whose partitions it is assigned."""


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
