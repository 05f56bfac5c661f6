"""Reads the records of one shard: what those who served it before have left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.declarative.sharding import RECORDS_TOPIC
from airflow_provider.shards.errors import ShardError
from airflow_provider.topics.client_errors import make_client

_silence: Final = logging.getLogger(f"{__name__}.librdkafka")
_silence.disabled = True

_BATCH: Final = 5_000
_POLL_S: Final = 0.2
_ANSWER_S: Final = 5.0
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001


def read_records(
    config: Mapping[str, Any], shard: int, *, given_up: Callable[[], bool]
) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Key, value and offset of all that is committed in a shard's partition, from its beginning to its present end.

    Once the shard's producer has begun, nothing can come behind that but what it writes itself.

    :param given_up: whether nobody waits for it any more
    :raises ShardError: it can't be read
    """
    consumer = make_client(
        Consumer,
        {
            **config,
            # Asked for by librdkafka, which asks who coordinates it. There is no subscription and no commit.
            "group.id": "cospark-shard-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
            "logger": _silence,
        },
    )
    try:
        yield from _up_to_the_end(consumer, shard, given_up)
    except KafkaException as failed:
        raise ShardError(f"the records of shard {shard} can't be read: {failed.args[0].str()}") from failed
    finally:
        consumer.close()


def _up_to_the_end(
    consumer: Consumer, shard: int, given_up: Callable[[], bool]
) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    partition = TopicPartition(RECORDS_TOPIC, shard, 0)
    # A broker that has just become the leader may not know yet how far the partition goes. To this question it says so.
    _, end = consumer.get_watermark_offsets(partition, timeout=_ANSWER_S)
    consumer.assign([partition])
    heard_at = time.monotonic()
    while True:
        messages = consumer.consume(_BATCH, _POLL_S)
        for message in messages:
            error = message.error()
            if error is None:
                yield message.key(), message.value(), _offset(message)
            elif error.code() == _END:
                if _offset(message) >= end:
                    return
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not error.retriable():
                raise KafkaException(error)
        if messages:
            heard_at = time.monotonic()
        elif given_up() or time.monotonic() - heard_at > _ANSWER_S:
            raise ShardError(f"the records of shard {shard} can't be read: no broker answers")


def _offset(message: Message) -> int:
    return message.offset() or 0
