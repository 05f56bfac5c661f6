"""The events of one group, as read from its events topic: filled by the reader's thread, readable in any thread."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.kafka.event_loops.changes import Changes
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.feeds.complaints import Complaints
from airflow_provider.kafka.topics.feeds.event_record import read_event
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.reports.group_events import EventFold, GroupEvent

_MOST_KEPT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Told:
    """The events that one record has caused.

    :param offset: the record's offset
    """

    offset: int
    events: tuple[GroupEvent, ...]


class EventFeed:
    """The events of a group, as far as its events topic has been read: the reader's sink for the topic.

    The topic is always read from its beginning, whatever bookmarks there are: whether a job is over follows from all
    its records, not only from the last one.

    :ivar changes: is told of all news
    """

    def __init__(self, topic: str) -> None:
        self.changes = Changes()
        self._complaints = Complaints(topic)
        self._lock = threading.Lock()
        self._problem: TopicError | None = None
        self._renewals = 0
        self._whole = False
        self._begin()

    def _begin(self) -> None:
        self._fold = EventFold()
        self._told: list[Told] = []
        self._next = 0

    @property
    def problem(self) -> TopicError | None:
        """Why the topic can't be read at present."""
        return self._problem

    @property
    def renewals(self) -> int:
        """How often the topic was found to have been deleted and created again, with offsets from 0."""
        return self._renewals

    @property
    def whole(self) -> bool:
        """Whether the topic has been read to its end."""
        return self._whole

    def since(self, offset: int) -> tuple[Sequence[Told], int]:
        """The events of the records from this offset on, and the offset up to which the topic has been read."""
        with self._lock:
            return self._told[bisect_left(self._told, offset, key=lambda told: told.offset) :], self._next

    def take(self, records: Sequence[Record]) -> None:
        if records[0].offset < self._next:
            self._restart()
        for record in records:
            events = read_event(record, self._complaints, self._fold.take)
            with self._lock:
                self._next = record.offset + 1
                if events:
                    self._told.append(Told(record.offset, events))
                    del self._told[:-_MOST_KEPT]
        self._news()

    def reached(self, offset: int) -> None:
        self._complaints.tell()
        if offset < self._next:
            self._restart()
        with self._lock:
            self._next = offset
        self._whole = True
        self._news()

    def again(self) -> None:
        with self._lock:
            self._begin()

    def fail(self, error: TopicError) -> None:
        self._problem = error
        self.changes.tell()

    def closed(self) -> None:
        self._complaints.tell()

    def _restart(self) -> None:
        with self._lock:
            self._begin()
            self._renewals += 1

    def _news(self) -> None:
        self._problem = None
        self.changes.tell()
