"""Asks for the ends of topics, with one request for many callers.

Every leader asks before it assigns, and a triggerer may hold a thousand memberships. Questions that come while a
request is under way are combined in the next request. So no answer is older than its question.

A thread asks, because a consumer's request blocks. An admin client would not block, but may end the process: see
:class:`~airflow_provider.kafka.topics.administration.partition_ends.LatestOffsets`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from airflow_provider.kafka.destroying import destroy_apart
from airflow_provider.kafka.topics.administration.partition_ends import End, LatestOffsets

Answers = Mapping[str, End]
"""The end of each topic."""

_REQUEST_TIMEOUT_S: Final = 10.0


class EndOffsets:
    """Sends one request after the other. Thread-safe.

    :param config: librdkafka's settings of the connection
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._latest = LatestOffsets(config)
        self._lock = threading.Lock()
        self._under_way = False
        self._closed = False
        self._topics: set[str] = set()
        self._asked: Future[Answers] = _running()

    def ask(self, topics: Iterable[str]) -> Future[Answers]:
        """Ask for the ends of these topics. The answers may contain others, too. The future fails with a TopicError if
        librdkafka refuses the settings.
        """
        with self._lock:
            self._topics.update(topics)
            asked = self._asked
            if not self._under_way:
                threading.Thread(target=self._answer_all, name="cospark-topic-ends", daemon=True).start()
                self._under_way = True
            return asked

    def close(self) -> None:
        """Close the client in a thread, as soon as no request is under way. Does not wait for that."""
        with self._lock:
            self._closed = True
            if not self._under_way and self._latest.is_open:
                self._under_way = destroy_apart(self._answer_all)

    def _answer_all(self) -> None:
        while True:
            with self._lock:
                topics, asked = self._topics, self._asked
                self._topics, self._asked = set(), _running()
                self._under_way = bool(topics)
                if not topics:
                    if self._closed:
                        self._latest.close()
                    return
            try:
                ends = self._latest.ask([(topic, 0) for topic in topics], timeout_s=_REQUEST_TIMEOUT_S)
            except Exception as failed:  # noqa: BLE001  it is raised at the callers
                asked.set_exception(failed)
            else:
                asked.set_result({topic: end for (topic, _), end in ends.items()})


def _running() -> Future[Answers]:
    """A future that can't be cancelled, because several callers wait for it."""
    future: Future[Answers] = Future()
    future.set_running_or_notify_cancel()
    return future
