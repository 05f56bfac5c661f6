"""Errors that end the serving of a shard, temporarily or for good."""

from __future__ import annotations

from airflow_provider.kafka.topics.errors import PassingError


class ShardError(PassingError):
    """A shard can't be served at present. Its state is dropped, and loaded again."""


class FencedError(ShardError):
    """Another coordinator serves the shard now. What was not committed has had no effect."""


class AbortedError(ShardError):
    """A transaction was aborted, and has had no effect. It may be tried again."""


class StalledError(ShardError):
    """This coordinator has stood still, so that it can't tell which members were silent."""


class BlamedError(Exception):
    """The machine has failed at requests or jobs. It is not given them again, so the next try has not failed yet."""


class OversizedError(ShardError):
    """A record or a reply is larger than its topic allows. The transaction has had no effect, and must not be tried
    again: that would block the shard for all its groups.
    """
