"""What ends the serving of a shard, for a time or for good."""

from __future__ import annotations

from airflow_provider.shards.requests import Write
from airflow_provider.topics.errors import TopicError


class ShardError(TopicError):
    """A shard can't be served just now; who serves it drops what it knows, and loads it again."""


class FencedError(ShardError):
    """Somebody else serves the shard now. Nothing that was not committed has had an effect."""


class AbortedError(ShardError):
    """A transaction was aborted, and has had no effect. The same may be tried again."""


class StalledError(ShardError):
    """Members may have been unable to reach this coordinator: it does not know who has been silent."""


class OversizedError(ShardError):
    """A record or a reply is larger than its topic takes. Nothing of the transaction has had an effect; and to try the
    same again would keep the shard from all its groups.

    :ivar write: which record; None: not known
    """

    def __init__(self, message: str, write: Write | None = None) -> None:
        super().__init__(message)
        self.write = write
