"""Notices that a group's topics are gone: without them there is nothing to assign, and waiting brings nothing back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from airflow_provider.topics.group_topics import GroupTopics


class TopicsWatch:
    """Watches over the topics for one membership. Each member does so by itself: a group in which only its leader
    noticed would lose its members one after the other.

    :param patience_s: a broker that has just started may not know its topics for so long; one that came back without
        its data never will
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
        """What happened to the topics before does not matter."""
        self._renewals = self._topics.renewals

    def look(self) -> None:
        """Called when something is new in the topics or about them. While one is missing, that is once a second."""
        renewed = [topic for topic, times in self._topics.renewals.items() if times > self._renewals.get(topic, 0)]
        missing = self._topics.missing
        if renewed:
            self._tell(renewed[0])
        elif missing is not None:
            self.missed(missing)
        else:
            self._missed_since = None

    def missed(self, topic: str) -> None:
        """Somebody looked for it in vain."""
        now = time.monotonic()
        self._missed_since = self._missed_since or now
        if now - self._missed_since >= self._patience_s:
            self._tell(topic)

    def _tell(self, topic: str) -> None:
        if not self._reported:
            self._reported = True
            self._gone(topic)
