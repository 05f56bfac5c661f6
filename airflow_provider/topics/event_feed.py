"""What one group's events topic tells, in this process: filled by the reader's thread, seen from any thread."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.kafka.changes import Changes
from airflow_provider.ledger.group_events import EventFold, GroupEvent
from airflow_provider.ledger.topic_view import Unreadable, reason_of
from airflow_provider.records import decode, event_from_json
from airflow_provider.topics.complaints import Complaints
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.reader import Record

_MOST_KEPT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Told:
    """What one record tells.

    :param offset: where it lies
    """

    offset: int
    events: tuple[GroupEvent, ...]


class EventFeed:
    """What has happened in a group, as far as the topic has been read and still has it. The reader's sink for it.

    The topic is always read from its beginning, however far somebody has been told: that a job is over is told by its
    last record, and by all before it.

    :ivar changes: told of whatever is new
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
        """How often the topic was found to have been deleted and made anew: its offsets count from 0 again."""
        return self._renewals

    @property
    def whole(self) -> bool:
        """Whether it has been read to its end."""
        return self._whole

    def since(self, offset: int) -> tuple[Sequence[Told], int]:
        """What records from that offset on tell, and how far the topic has been read."""
        with self._lock:
            return self._told[bisect_left(self._told, offset, key=lambda told: told.offset) :], self._next

    def take(self, records: Sequence[Record]) -> None:
        if records[0].offset < self._next:
            self._made_anew()
        for record in records:
            events = self._events_of(record)
            with self._lock:
                self._next = record.offset + 1
                if events:
                    self._told.append(Told(record.offset, events))
                    del self._told[:-_MOST_KEPT]
        self._news()

    def reached(self, offset: int) -> None:
        self._complaints.tell()
        if offset < self._next:
            self._made_anew()
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

    def _events_of(self, record: Record) -> tuple[GroupEvent, ...]:
        try:
            return self._fold.take(event_from_json(decode(record.value or b"")))
        except Exception as wrong:  # noqa: BLE001  whatever it is, the others can be read
            self._complaints.add(Unreadable(key=record.key, offset=record.offset, reason=reason_of(wrong)))
            return ()

    def _made_anew(self) -> None:
        with self._lock:
            self._begin()
            self._renewals += 1

    def _news(self) -> None:
        self._problem = None
        self.changes.tell()
