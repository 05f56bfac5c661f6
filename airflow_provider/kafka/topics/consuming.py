"""Takes what a consumer has, as long as it reads at all."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

_FATAL: Final = KafkaError._FATAL  # noqa: SLF001


def take_from(consumer: Consumer, *, wait_s: float, most: int) -> list[Message]:
    """Take the messages that a consumer has.

    A fatal error is a message, which librdkafka gives once. From then on the consumer reads nothing, and says nothing.
    Its ``fatal()`` is False; only its code tells.

    :param wait_s: how long to wait for the first one
    :param most: how many to take besides
    :raises KafkaException: the consumer has failed, and has to be replaced. What it had read besides is not returned
    """
    first = consumer.poll(wait_s)
    if first is None:
        return []
    messages = [first, *consumer.consume(most, 0)]
    for message in messages:
        error = message.error()
        if error is not None and error.code() == _FATAL:
            raise KafkaException(error)
    return messages
