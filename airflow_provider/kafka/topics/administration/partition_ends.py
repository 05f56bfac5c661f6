"""Asks brokers where partitions end."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.kafka.topics.librdkafka import COMMON, make_client

Partition = tuple[str, int]
End = int | KafkaError
"""The offset of a partition's next record, also of one in an open transaction; or why it is not known."""

_NO_LEADER: Final = KafkaError(KafkaError._NOENT, "no leader found")  # noqa: SLF001
_NO_ANSWER: Final = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001


class LatestOffsets:
    """Asks with a consumer that joins no group. For one thread at a time.

    An admin client must not ask for offsets: librdkafka then looks for leaders in two threads, of which one may free
    what the other still uses, and the process ends (2.16).

    The consumer is made when it is needed, and discarded when something was not known: librdkafka remembers for minutes
    which broker leads, in which epoch, and that a topic did not exist. So this may be used again after it was closed.

    :param config: librdkafka's settings of the connection
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {
            **config,
            **COMMON,
            # Required by librdkafka. Without a subscription and without commits, it stays unused.
            "group.id": "cospark-topic-ends",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
        self._consumer: Consumer | None = None

    def ask(self, partitions: Collection[Partition], *, timeout_s: float) -> Mapping[Partition, End]:
        """Ask where these partitions end, with one request to each leader. Blocks.

        :raises TopicError: if librdkafka refuses the settings
        """
        until = time.monotonic() + timeout_s
        try:
            ends = self._ask(partitions, timeout_s)
        except KafkaException as failed:
            self.close()
            if _code(failed) > 0:  # a broker's answer about one of them, perhaps to what the consumer remembered
                ends = {each: self._ask_alone(each, max(0.0, until - time.monotonic())) for each in partitions}
            else:
                ends = dict.fromkeys(partitions, _error(failed))
        if any(isinstance(end, KafkaError) for end in ends.values()):
            self.close()
        return ends

    @property
    def is_open(self) -> bool:
        """Whether there is a consumer."""
        return self._consumer is not None

    def close(self) -> None:
        """Close the consumer. Blocks while one of its threads looks for a broker's name."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _ask_alone(self, partition: Partition, timeout_s: float) -> End:
        try:
            return self._ask((partition,), timeout_s)[partition]
        except KafkaException as failed:
            return _error(failed)

    def _ask(self, partitions: Collection[Partition], timeout_s: float) -> dict[Partition, End]:
        if self._consumer is None:
            self._consumer = make_client(Consumer, self._config)
        latest = [TopicPartition(topic, number, OFFSET_END) for topic, number in partitions]
        answers = self._consumer.offsets_for_times(latest, timeout_s)
        return {(answer.topic, answer.partition): _end(answer) for answer in answers}


def _end(answer: TopicPartition) -> End:
    if answer.error is not None:
        return answer.error
    return answer.offset if answer.offset >= 0 else _NO_ANSWER


def _code(failed: KafkaException) -> int:
    return int(failed.args[0].code())


def _error(failed: KafkaException) -> KafkaError:
    code = _code(failed)
    # What librdkafka calls an unknown partition here may also have no leader, or be one that this user may not see.
    return _NO_LEADER if code == KafkaError._UNKNOWN_PARTITION else KafkaError(code)  # noqa: SLF001
