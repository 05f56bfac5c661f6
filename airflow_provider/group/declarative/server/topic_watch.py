"""Notices when a topic of the shards was deleted, created again, or given more partitions. Nothing else would show this
to a coordinator.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import TopicDescription

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_topics import NEEDS
from airflow_provider.kafka.topics.administration.lasting_admin import Answer, LastingAdmin
from airflow_provider.kafka.topics.client_errors import UNKNOWN_TOPIC
from airflow_provider.kafka.topics.errors import BrokerAwayError, TopicError
from airflow_provider.kafka.topics.outage import Outage

log: Final = logging.getLogger(__name__)

_LOOK_S: Final = 2.0
_AGAIN_S: Final = 0.5
"""When to look again for a missing topic. It counts as gone if it is missing twice: brokers may not know a new one yet.
"""
_ANSWER_S: Final = 5.0
_LATELY_S: Final = 600.0
"""How long it matters that a topic was renewed. No session is longer."""


class TopicWatch:
    """Watches the topics, for a thread that must not wait: each look takes the last answer, and asks again.

    :param outage: is told when brokers answer
    """

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._ids: dict[str, str] = {}
        self._partitions: Mapping[str, int] = {}
        self._missed: frozenset[str] = frozenset()
        self._renewed_at: dict[str, float] = {}
        self._asked: Mapping[str, Answer[TopicDescription]] = {}
        self._ask_at = 0.0

    def was_renewed(self, topic: str) -> bool:
        """Whether the topic was deleted and created again lately."""
        renewed_at = self._renewed_at.get(topic)
        return renewed_at is not None and time.monotonic() - renewed_at < _LATELY_S

    def begin(self, admin: LastingAdmin, layout: Layout) -> None:
        """Find out which topics were created again while they were not watched, before any is read. Blocks.

        :param layout: the numbers of partitions that are not to change
        :raises ShardError: no broker answers
        :raises RefusedError: a broker refuses the connection
        """
        shards = dict.fromkeys((REQUESTS_TOPIC, RECORDS_TOPIC), layout.shards)
        self._partitions = {**shards, REPLIES_TOPIC: layout.replies}
        self._asked, self._missed = {}, frozenset()
        for topic, answer in self._ask(admin).items():
            try:
                self._was_replaced(topic, answer.result())
            except (KafkaException, BrokerAwayError) as failed:
                why = failed.args[0].str() if isinstance(failed, KafkaException) else failed
                raise ShardError(f"the topic {topic!r} can't be described: {why}") from failed
        self._ask_at = time.monotonic() + _LOOK_S

    def look(self, admin: LastingAdmin) -> None:
        """Check the topics, without waiting.

        :raises ShardError: a topic is gone, was created again, or has another number of partitions
        """
        if self._asked:
            if all(each.is_due for each in self._asked.values()):
                asked, self._asked = self._asked, {}
                self._compare(asked)
        elif time.monotonic() >= self._ask_at:
            self._asked = self._ask(admin)

    def _ask(self, admin: LastingAdmin) -> Mapping[str, Answer[TopicDescription]]:
        return admin.ask(
            f"looking for the topics {', '.join(NEEDS)}",
            lambda client, most_s: client.describe_topics(TopicCollection([*NEEDS]), request_timeout=most_s),
            timeout_s=_ANSWER_S,
        )

    def _compare(self, answers: Mapping[str, Answer[TopicDescription]]) -> None:
        missing, now = set(), time.monotonic()
        for topic, answer in answers.items():
            try:
                found = answer.result()
            except KafkaException as failed:
                if failed.args[0].code() in UNKNOWN_TOPIC:
                    missing.add(topic)
                continue
            except TopicError as unanswered:
                log.debug("%s", unanswered)  # who reads the requests says so, too, if it is more than this question
                continue
            self._outage.is_back()
            if self._was_replaced(topic, found):
                raise ShardError(f"the topic {topic!r} was deleted and created again")
            if len(found.partitions) != self._partitions[topic]:
                raise ShardError(
                    f"the topic {topic!r} had {self._partitions[topic]} partitions, and has {len(found.partitions)} now"
                )
        self._ask_at = now + (_AGAIN_S if missing else _LOOK_S)
        gone = sorted(missing & self._missed)
        self._missed = frozenset(missing)
        if gone:
            for topic in gone:
                self._ids.pop(topic, None)
            self._renewed_at.update(dict.fromkeys(gone, now))
            raise ShardError(f"{_named(gone)} gone: deleted, or lost by the brokers")

    def _was_replaced(self, topic: str, found: TopicDescription) -> bool:
        """Whether this is another topic than the last time."""
        topic_id = str(found.topic_id)
        if self._ids.setdefault(topic, topic_id) == topic_id:
            return False
        self._ids[topic] = topic_id
        self._renewed_at[topic] = time.monotonic()
        return True


def _named(topics: list[str]) -> str:
    return f"the topic {topics[0]!r} is" if len(topics) == 1 else f"the topics {', '.join(map(repr, topics))} are"
