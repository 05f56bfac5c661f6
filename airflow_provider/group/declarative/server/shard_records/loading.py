"""Reads the records that earlier coordinators of a shard have written."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client

_BATCH: Final = 5_000
_POLL_S: Final = 0.2
_ANSWER_S: Final = 5.0
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001


Stored = tuple["bytes | None", "bytes | None", int]
"""Key, value and offset of a record."""


class Ended(NamedTuple):
    """The end of a shard's records.

    :param at: the end offset, after everything that was ever written, also in aborted transactions
    :param found: how many records were read
    """

    at: int
    found: int


Records = Generator[Stored, None, Ended]


def read_records(config: Mapping[str, Any], shard: int, *, given_up: Callable[[], bool]) -> Records:
    """Read all committed records of a shard, from the beginning to the present end.

    When the shard's producer has begun, only this producer can write more.

    :param given_up: whether the caller does not wait for this any more
    :raises ShardError: the records can't be read
    """
    with _reading(config, shard) as (consumer, end):
        return (yield from _up_to_the_end(consumer, shard, end, given_up))


def read_moment(config: Mapping[str, Any], shard: int, *, given_up: Callable[[], bool]) -> Iterator[Stored]:
    """Read the records of a shard that are committed now: whole transactions. It is for readers that look at a shard
    while it is served, where more is written all the time.

    :param given_up: whether the caller does not wait for this any more
    :raises ShardError: the records can't be read
    """
    with _reading(config, shard) as (consumer, end):
        yield from takewhile(lambda stored: stored[2] < end, _up_to_the_end(consumer, shard, end, given_up))


@contextmanager
def _reading(config: Mapping[str, Any], shard: int) -> Iterator[tuple[Consumer, int]]:
    """A consumer of a shard's records, and the end of the committed ones."""
    # librdkafka requires a group id, and looks up its coordinator. There is no subscription and no commit.
    consumer = make_client(
        Consumer,
        {
            **config,
            **COMMON,
            "group.id": "cospark-shard-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        },
    )
    partition = TopicPartition(RECORDS_TOPIC, shard, 0)
    try:
        # A broker that has just become the leader may not know the end of the partition yet. Then this request fails.
        _, end = consumer.get_watermark_offsets(partition, timeout=_ANSWER_S)
        consumer.assign([partition])
        yield consumer, end
    except KafkaException as failed:
        raise ShardError(f"the records of shard {shard} can't be read: {failed.args[0].str()}") from failed
    finally:
        consumer.close()


def _up_to_the_end(consumer: Consumer, shard: int, end: int, given_up: Callable[[], bool]) -> Records:
    heard_at, found = time.monotonic(), 0
    while True:
        messages = consumer.consume(_BATCH, _POLL_S)
        for message in messages:
            error = message.error()
            if error is None:
                found += 1
                yield message.key(), message.value(), _offset(message)
            elif error.code() == _END:
                if _offset(message) >= end:
                    return Ended(_offset(message), found)
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not error.retriable():
                raise KafkaException(error)
        if messages:
            heard_at = time.monotonic()
        elif given_up():
            raise ShardError(f"shard {shard} was revoked before it was loaded")
        elif time.monotonic() - heard_at > _ANSWER_S:
            raise ShardError(f"the records of shard {shard} can't be read: no broker answers")


def _offset(message: Message) -> int:
    return message.offset() or 0
