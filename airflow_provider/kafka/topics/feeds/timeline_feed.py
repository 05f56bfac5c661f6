"""The timeline of one group in this process: filled by the reader's thread, readable in any thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.feeds.complaints import Complaints
from airflow_provider.kafka.topics.feeds.event_record import read_event
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.views.timeline_view import Attempt, Timeline, TimelineView
from airflow_provider.values.model import TaskId


class TimelineFeed:
    """The last events of a group: the reader's sink for its events topic.

    :param topic: the topic's name
    """

    def __init__(self, topic: str) -> None:
        self._complaints = Complaints(topic)
        self._lock = threading.Lock()
        self._view = TimelineView()
        self._views = 0
        self._whole = False

    @property
    def whole(self) -> bool:
        """Whether the topic has been read to its end once."""
        return self._whole

    @property
    def origin(self) -> str:
        """Identifies the numbering of changes. A number of another origin means nothing here."""
        return f"{id(self):x}.{self._views}"

    def timeline(self, since: int = 0) -> Timeline:
        """The timeline, or what has changed in it.

        :param since: the number of the last change that the caller knows
        """
        with self._lock:
            return self._view.timeline(since)

    def attempts_of(self, task: TaskId) -> tuple[Attempt, ...]:
        with self._lock:
            return self._view.attempts_of(task)

    def take(self, records: Sequence[Record]) -> None:
        events = [read_event(record, self._complaints, lambda event: event) for record in records]
        with self._lock:
            for event in events:
                if event is None:
                    self._view.unreadable += 1
                else:
                    self._view.take(event)

    def reached(self, _offset: int) -> None:
        self._whole = True
        self._complaints.tell()

    def again(self) -> None:
        with self._lock:
            self._view = TimelineView()
            self._views += 1

    def fail(self, error: TopicError) -> None:
        """Ignored: what was read stays."""

    def closed(self) -> None:
        self._complaints.tell()
