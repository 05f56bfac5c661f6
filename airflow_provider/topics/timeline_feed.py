"""The timeline of one group in this process: filled by the reader's thread, seen from any thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from airflow_provider.ledger.timeline_view import Attempt, Timeline, TimelineView
from airflow_provider.protocol.model import TaskId
from airflow_provider.topics.complaints import Complaints
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.event_record import read_event
from airflow_provider.topics.reader import Record


class TimelineFeed:
    """The reader's sink for an events topic.

    :param topic: its name
    """

    def __init__(self, topic: str) -> None:
        self._complaints = Complaints(topic)
        self._lock = threading.Lock()
        self._view = TimelineView()
        self._views = 0
        self._whole = False
        self._problem: TopicError | None = None

    @property
    def whole(self) -> bool:
        """Whether it has been read to its end once."""
        return self._whole

    @property
    def problem(self) -> TopicError | None:
        """Why the topic can't be read at present."""
        return self._problem

    @property
    def origin(self) -> str:
        """Tells what is counted from what: the numbers of another one mean nothing here."""
        return f"{id(self):x}.{self._views}"

    def timeline(self, since: int = 0) -> Timeline:
        """:param since: the number of the last change that is known to who asks"""
        with self._lock:
            return self._view.timeline(since)

    def attempts_of(self, task: TaskId) -> tuple[Attempt, ...]:
        with self._lock:
            return self._view.attempts_of(task)

    def take(self, records: Sequence[Record]) -> None:
        events = [event for record in records if (event := read_event(record, self._complaints)) is not None]
        with self._lock:
            self._view.unreadable += len(records) - len(events)
            for event in events:
                self._view.take(event)

    def reached(self, _offset: int) -> None:
        self._whole = True
        self._problem = None
        self._complaints.tell()

    def again(self) -> None:
        with self._lock:
            self._view = TimelineView()
            self._views += 1

    def fail(self, error: TopicError) -> None:
        self._problem = error

    def closed(self) -> None:
        self._complaints.tell()
