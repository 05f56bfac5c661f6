"""Creates and checks the three topics of all declarative groups of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider.group.declarative.protocol.sharding import (
    DEFAULT_LAYOUT,
    RECORDS_TOPIC,
    REPLIES_TOPIC,
    REQUESTS_TOPIC,
    Layout,
)
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.administration.topic_admin import FoundTopic, TopicAdmin
from airflow_provider.kafka.topics.errors import PartitionsError, RightsError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.state.records.envelope import LARGEST_VALUE

_PASSING_MS: Final = 60 * 60 * 1_000
"""How long requests and replies are kept. By then, no member waits any more, and requests have been sent again."""
_SEGMENT_BYTES: Final = 16 * 1024 * 1024
_LARGEST: Final = {"max.message.bytes": str(LARGEST_VALUE)}
_PASSING: Final = {
    **_LARGEST,
    "cleanup.policy": "delete",
    "retention.ms": str(_PASSING_MS),
    "segment.ms": str(_PASSING_MS),
    "segment.bytes": str(4 * _SEGMENT_BYTES),
}
_KEPT: Final = {**_LARGEST, "cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)}

NEEDS: Final[Mapping[str, frozenset[Operation]]] = {
    REQUESTS_TOPIC: frozenset({Operation.READ}),
    REPLIES_TOPIC: frozenset({Operation.WRITE}),
    RECORDS_TOPIC: frozenset({Operation.READ, Operation.WRITE}),
}
"""The rights that a coordinator needs. A member writes requests and reads replies."""


class ShardTopics(TopicAdmin):
    """Creates and checks the topics by one connection.

    :param config: librdkafka's settings of the connection
    :param outage: is told of errors of the connection
    :raises LastingError: if librdkafka refuses the settings
    """

    def __init__(self, config: Mapping[str, Any], outage: Outage) -> None:
        super().__init__(config, outage)
        self._user = principal_of(config)

    async def prepare_shards(self, *, timeout_s: float, make: Layout = DEFAULT_LAYOUT) -> Layout:
        """Check that the user has the rights to coordinate, and create missing topics. Existing topics are not changed.

        :param make: the numbers of partitions of new topics
        :returns: the present numbers of partitions
        :raises RightsError: if a topic is missing and may not be created, or rights are lacking; it names all of them
        :raises RefusedError: if the broker refuses the connection
        :raises BrokerAwayError: if no broker answers in time
        :raises PartitionsError: if the topics do not fit together
        :raises TopicError: if the topics can't be used
        """
        found = {topic: await self.look_at(topic, timeout_s=timeout_s) for topic in NEEDS}
        missing = [topic for topic, there in found.items() if there is None]
        if missing:
            shards = _shards_of(found) or make.shards
            plan = {
                REQUESTS_TOPIC: (shards, _PASSING),
                REPLIES_TOPIC: (make.replies, _PASSING),
                RECORDS_TOPIC: (shards, _KEPT),
            }
            await self.make({topic: plan[topic] for topic in missing}, timeout_s=timeout_s)
            await self.appear(missing, timeout_s=timeout_s)
            found = {topic: await self.look_at(topic, timeout_s=timeout_s) for topic in NEEDS}
        there = {topic: each for topic, each in found.items() if each is not None}
        lacking = [
            Right(topic, operation)
            for topic, needed in NEEDS.items()
            if topic in there
            for operation in sorted(needed - there[topic].allowed)
        ]
        if lacking:
            raise RightsError(lacking, self._user)
        return _layout_of(there)


def _shards_of(found: Mapping[str, FoundTopic | None]) -> int:
    """The number of shards according to an existing topic; 0: none exists. A new topic must have the same number."""
    return max(there.partitions if (there := found[topic]) else 0 for topic in (REQUESTS_TOPIC, RECORDS_TOPIC))


def _layout_of(found: Mapping[str, FoundTopic]) -> Layout:
    """The numbers of partitions.

    :raises ShardError: some are not known yet to a broker that was asked
    :raises PartitionsError: they do not fit together
    """
    counts = {topic: found[topic].partitions if topic in found else 0 for topic in NEEDS}
    if not all(counts.values()):
        raise ShardError(f"the topics {', '.join(NEEDS)} were created, but do not all exist: see the brokers' logs")
    if counts[REQUESTS_TOPIC] != counts[RECORDS_TOPIC]:
        raise PartitionsError(
            f"the topic {REQUESTS_TOPIC!r} has {counts[REQUESTS_TOPIC]} partitions, and {RECORDS_TOPIC!r} has"
            f" {counts[RECORDS_TOPIC]}: both must have the same number, because a group's records and requests are in"
            " the same partition; delete the one that was changed (it is created again)"
        )
    return Layout(shards=counts[REQUESTS_TOPIC], replies=counts[REPLIES_TOPIC])
