"""Asks for the ends of topics, with one request for many callers.

Every leader asks before it assigns, and a triggerer may hold a thousand memberships. Questions that come while a
request is under way are combined in the next request. So no answer is older than its question.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

Answers = Mapping[str, "Future[ListOffsetsResultInfo]"]
"""For each topic a finished future, with its end or a KafkaException."""

_REQUEST_TIMEOUT_S: Final = 10.0


class EndOffsets:
    """Sends one request after the other. Thread-safe.

    :param client: the client. Its connection must not be used for fetches, because requests would wait for them
    """

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._under_way = False
        self._topics: set[str] = set()
        self._asked: Future[Answers] = _running()

    def ask(self, topics: Iterable[str]) -> Future[Answers]:
        """Ask for the ends of these topics. The answers may contain others, too. The future fails with a KafkaException
        if no request could be sent.
        """
        with self._lock:
            self._topics.update(topics)
            asked = self._asked
            if self._under_way:
                return asked
            self._under_way = True
        self._ask_next()
        return asked

    def _ask_next(self) -> None:
        with self._lock:
            topics, asked = self._topics, self._asked
            self._topics, self._asked = set(), _running()
            self._under_way = bool(topics)
        if not topics:
            return
        partitions = {topic: TopicPartition(topic, 0) for topic in topics}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # without hints
        try:
            results = self._client.list_offsets(
                dict.fromkeys(partitions.values(), latest), request_timeout=_REQUEST_TIMEOUT_S
            )
        except KafkaException as failed:
            asked.set_exception(failed)
            self._ask_next()
            return
        answers = {topic: results[partition] for topic, partition in partitions.items()}
        left = itertools.count(len(answers) - 1, -1)

        def answered(_answer: Future[ListOffsetsResultInfo]) -> None:
            if next(left) == 0:
                asked.set_result(answers)
                self._ask_next()

        for answer in answers.values():
            answer.add_done_callback(answered)


def _running() -> Future[Answers]:
    """A future that can't be cancelled, because several callers wait for it."""
    future: Future[Answers] = Future()
    future.set_running_or_notify_cancel()
    return future
