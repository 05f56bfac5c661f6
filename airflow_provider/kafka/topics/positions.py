"""Knows how far topics have been read, and whether records were missed. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class Positions:
    """The offsets up to which topics of one partition have been read, each from its beginning.

    Compaction leaves holes. They do not matter to a reader that begins, because the remaining records are the present
    state. But a hole after the point up to which the topic was read to its end means that records were written and
    compacted unseen, while the topic could not be read. If such a key was written again, that record comes later. If it
    was deleted longer ago than ``delete.retention.ms``, nothing comes, because its tombstone is gone, too.

    Offsets show this whatever the clocks say, for example on a host that was suspended. In topics that are written in
    transactions, the offsets of commit markers would look like holes; these topics are not written in transactions.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._whole: set[str] = set()

    def next_of(self, topic: str) -> int:
        """The offset of the topic's next record, if there is no hole."""
        return self._next.get(topic, 0)

    def took(self, topic: str, offset: int) -> None:
        """Note that the record at this offset has been read."""
        self._next[topic] = offset + 1

    def ended(self, topic: str, offset: int) -> None:
        """Note that the topic has been read to its present end."""
        self._next[topic] = offset
        self._whole.add(topic)

    def misses(self, topic: str, offset: int) -> bool:
        """Whether records were missed before this offset, which is that of the next record, or the topic's end."""
        return topic in self._whole and offset > self._next[topic]

    def forget(self, topics: Iterable[str]) -> None:
        """Forget topics that are no longer read, or are read from the beginning again."""
        for topic in topics:
            self._next.pop(topic, None)
            self._whole.discard(topic)
