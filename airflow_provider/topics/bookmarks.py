"""Bookmarks: how far asset watchers have been told of a group's events. They are kept as committed offsets of consumer
groups.

No consumer ever joins these consumer groups, because one reader reads for all. The broker forgets an offset that is not
committed again within ``offsets.retention.minutes`` (7 days by default).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider.kafka.settings import principal_of
from airflow_provider.topics.errors import RightsError, TopicError
from airflow_provider.topics.librdkafka import COMMON, make_client
from airflow_provider.topics.rights import Operation, Right

T = TypeVar("T")

_TIMEOUT_S: Final = 10.0


class Bookmarks:
    """Reads and writes the bookmarks of a cluster.

    :param config: librdkafka's settings of the connection
    :raises TopicError: if librdkafka refuses the settings
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._principal = principal_of(config)
        self._client = make_client(AdminClient, {**config, **COMMON})

    async def read(self, name: str, topic: str) -> int | None:
        """The offset of the first record that has not been told yet; None: there is no such bookmark.

        :param name: the name of the bookmark, and of its consumer group
        :raises TopicError: if it can't be read
        """
        asked = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0)])
        (answer,) = self._client.list_consumer_group_offsets([asked], request_timeout=_TIMEOUT_S).values()
        (found,) = (await self._done(name, "read", answer)).topic_partitions
        return found.offset if found.offset >= 0 else None

    async def put(self, name: str, topic: str, offset: int) -> None:
        """Note that everything before this offset has been told.

        :raises TopicError: if it can't be written
        """
        asked = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, offset)])
        (answer,) = self._client.alter_consumer_group_offsets([asked], request_timeout=_TIMEOUT_S).values()
        for written in (await self._done(name, "written", answer)).topic_partitions:
            if written.error is not None:
                raise self._refused(name, "written", written.error)

    async def _done(self, name: str, done: str, answer: Future[T]) -> T:
        try:
            return await asyncio.wrap_future(answer)
        except KafkaException as failed:
            raise self._refused(name, done, failed.args[0]) from failed

    def _refused(self, name: str, done: str, error: KafkaError) -> TopicError:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return RightsError([Right(name, Operation.READ, "group")], self._principal)
        return TopicError(f"the bookmark {name!r} (a consumer group) can't be {done}: {error.str()}")
