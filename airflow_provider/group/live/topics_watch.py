"""Notices that a group's topics are gone. Then there is nothing to assign, and waiting does not bring them back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from airflow_provider.kafka.topics.topic_writer import GroupTopics


class TopicsWatch:
    """Watches the topics for one membership. Each member does so itself: if only the leader noticed, the group would
    lose its members one after another.

    :param patience_s: how long topics may be missing, in seconds: a broker that has just started may not know them yet,
        one that was restarted without its data never will
    :param gone: called, once, with the topic that is gone
    """

    def __init__(self, topics: GroupTopics, *, patience_s: float, gone: Callable[[str], None]) -> None:
        self._topics = topics
        self._patience_s = patience_s
        self._gone = gone
        self._renewals: Mapping[str, int] = {}
        self._missed_since: float | None = None
        self._reported = False

    def begin(self) -> None:
        """Begin; what happened to the topics before does not matter."""
        self._renewals = self._topics.renewals

    def look(self) -> None:
        """Check the topics. Called at any news in them or about them, and every second while one is missing."""
        renewed = [topic for topic, times in self._topics.renewals.items() if times > self._renewals.get(topic, 0)]
        missing = self._topics.missing
        if renewed:
            self._tell(renewed[0])
        elif missing is not None:
            self.missed(missing)
        else:
            self._missed_since = None

    def missed(self, topic: str) -> None:
        """Note that a topic was looked for and not found."""
        now = time.monotonic()
        self._missed_since = self._missed_since or now
        if now - self._missed_since >= self._patience_s:
            self._tell(topic)

    def _tell(self, topic: str) -> None:
        if not self._reported:
            self._reported = True
            self._gone(topic)
