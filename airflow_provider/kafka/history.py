"""Reads a group's events topic once, from its beginning to its present end: what a timeline is drawn from."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.kafka.log_errors import BrokerAwayError, LogError, NoTopicError
from airflow_provider.kafka.records import Event, Topics, decode, event_from_json
from airflow_provider.kafka.settings import KafkaSettings

_POLL_S: Final = 0.2
_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001


def read_events(settings: KafkaSettings, group: str, *, timeout_s: float = 30.0) -> tuple[Event, ...]:
    """All events that are still kept, the oldest first. Blocks; what cannot be read is left out.

    :raises NoTopicError: the group has no events topic
    :raises BrokerAwayError: no broker answered in time
    :raises LogError: the topic cannot be read
    """
    topic = Topics.of(group).events
    consumer = Consumer(
        {
            **settings.librdkafka(),
            "group.id": "cospark-history",
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
    )
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=timeout_s, cached=False)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return tuple(_read(consumer, topic, end, settings, timeout_s))
    except KafkaException as failed:
        error = failed.args[0]
        if error.code() in _MISSING:
            raise NoTopicError(topic) from failed
        raise LogError(f"the topic {topic!r} cannot be read: {error.str()}") from failed
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, end: int, settings: KafkaSettings, timeout_s: float) -> list[Event]:
    events: list[Event] = []
    deadline = time.monotonic() + timeout_s
    position = 0
    while position < end:
        message = consumer.poll(_POLL_S)
        if time.monotonic() > deadline:
            raise BrokerAwayError(settings.bootstrap_servers, f"reading {topic}", "")
        if message is None:
            # Retention may have removed what lies between here and the end.
            position = max(position, consumer.get_watermark_offsets(TopicPartition(topic, 0), cached=True)[0])
            continue
        if message.error():
            raise KafkaException(message.error())
        position = (message.offset() or 0) + 1
        try:
            events.append(event_from_json(decode(message.value() or b"")))
        except ValueError:
            continue
    return events
