"""How far topics have been read, and whether records were missed on the way. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class Positions:
    """The offsets up to which topics of one partition have been read, each from its beginning.

    Compaction leaves holes. To a first reader they do not matter: what is left is how the topic stands. But a hole
    behind what has been read to the end means that records came and went unseen, while the topic could not be read. A
    key that was written again shows up later. That a key was deleted does not, if that was longer ago than
    ``delete.retention.ms``: its tombstone is gone too.

    Offsets tell that whatever the clocks say, of a host that slept for example. They would tell it too of topics that
    are written in transactions, whose ends have offsets; these topics are not.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._whole: set[str] = set()

    def next_of(self, topic: str) -> int:
        """The offset of the next record of the topic, if it has no hole there."""
        return self._next.get(topic, 0)

    def took(self, topic: str, offset: int) -> None:
        """The record at this offset has been read."""
        self._next[topic] = offset + 1

    def ended(self, topic: str, offset: int) -> None:
        """The topic has been read up to its end, which is here for now."""
        self._next[topic] = offset
        self._whole.add(topic)

    def misses(self, topic: str, offset: int) -> bool:
        """Whether something was missed if the next thing of the topic is this: a record, or the topic's end."""
        return topic in self._whole and offset > self._next[topic]

    def forget(self, topics: Iterable[str]) -> None:
        """They are read no more, or from the beginning."""
        for topic in topics:
            self._next.pop(topic, None)
            self._whole.discard(topic)
