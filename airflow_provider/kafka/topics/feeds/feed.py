"""The views of one group's topics in this process: filled by the reader's thread, readable in any thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.event_loops.changes import Changes
from airflow_provider.kafka.topics.errors import NoTopicError, ReaderFaultError, TopicError
from airflow_provider.kafka.topics.feeds.complaints import Complaints
from airflow_provider.kafka.topics.feeds.event_feed import EventFeed
from airflow_provider.kafka.topics.feeds.superseded import superseded
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.kafka.topics.rights import Needs
from airflow_provider.state.records import TopicNames
from airflow_provider.state.views.jobs_view import JobsSnapshot, JobsView
from airflow_provider.state.views.status_view import StatusRecord, StatusSnapshot, StatusView
from airflow_provider.state.views.topic_view import About, Parsed, TopicView, Unreadable

log: Final = logging.getLogger(__name__)

S = TypeVar("S")


class TopicFeed(Generic[S]):
    """A view of one topic, filled by the reader's thread: the reader's sink for the topic.

    Event loops wait for its lock, so nothing is parsed while it is held, and nothing is logged except for debugging.

    While the topic is read again from its beginning, a new view is filled, and the old one is visible until that is
    done. Otherwise there would be no jobs for a moment, which would stop all tasks.

    :param make_view: makes an empty view, given a function for unreadable records
    :param complaints: collects unreadable records
    """

    def __init__(
        self,
        make_view: Callable[[Callable[[Unreadable], None]], TopicView[S]],
        changes: Changes,
        complaints: Complaints,
    ) -> None:
        self._make_view = make_view
        self._complaints = complaints
        self._whole = False
        self._view = make_view(complaints.add)
        self._next: TopicView[S] | None = None
        self._renewals = 0  # of views before this one
        self._changes = changes
        self._lock = threading.Lock()
        self._problem: TopicError | None = None

    @property
    def problem(self) -> TopicError | None:
        """Why the topic can't be read at present."""
        return self._problem

    @property
    def whole(self) -> bool:
        """Whether the topic has been read to its end."""
        return self._whole or self._next is not None

    @property
    def offset(self) -> int:
        """The offset up to which the topic has been read."""
        return self._view.offset

    @property
    def renewals(self) -> int:
        """How often the topic was found to have been deleted and created again."""
        return self._renewals + self._view.renewals

    def snapshot(self) -> S:
        """The present view, as a value."""
        with self._lock:
            return self._view.snapshot()

    def take(self, records: Sequence[Record]) -> None:
        view = self._next or self._view
        for parsed in _parsed(view, records):
            with self._lock:
                view.take(parsed)
        with self._lock:
            news = self._news()
        self._changes.tell(news)
        if self._whole:
            self._complaints.tell()

    def reached(self, offset: int) -> None:
        """Note that the topic ends here for now. This comes after each last record, and is rarely news."""
        self._whole = True
        self._complaints.tell()
        with self._lock:
            if self._next is not None:
                self._replace(self._next, offset)
            self._view.advance(offset)
            news = self._news()
        self._changes.tell(news)

    def again(self) -> None:
        """Begin to fill a new view: the topic is read again from its beginning."""
        self._next = self._make_view(self._complaints.add)
        self._whole = False

    def fail(self, error: TopicError) -> None:
        self._problem = error
        self._changes.tell(About.EVERYTHING)

    def closed(self) -> None:
        self._complaints.tell()

    def _replace(self, new: TopicView[S], end: int) -> None:
        """Replace the view by the new one. If the topic ends before what was read of it, it was deleted and created
        again in the meantime.
        """
        renewed = max(new.renewals, int(end < self._view.offset))
        self._renewals = self.renewals + renewed - new.renewals
        self._view, self._next = new, None
        new.all_is_news()

    def _news(self) -> About:
        """What has changed since the last call. After a problem, everything counts as changed."""
        if self._problem is None:
            return self._view.take_news()
        self._problem = None
        self._view.take_news()
        return About.EVERYTHING


def _parsed(view: TopicView[Any], records: Sequence[Record]) -> Iterator[Parsed]:
    """Parse records one after the other, without superseded ones. The records that supersede others are parsed first,
    to make sure that they can be read.
    """
    skipped = superseded(records)
    first = {place: view.parse(*records[place]) for place in set(skipped.values())}
    if any(record.key is None for record in first.values()):
        skipped = {}
    for place, record in enumerate(records):
        if place not in skipped:
            yield first[place] if place in first else view.parse(*record)


class GroupFeed:
    """The feeds of a group: of both compacted topics, and of its events topic if it is followed.

    :ivar granted: the needs for which the rights were checked, and are there
    :ivar events: None: the events topic is not followed
    """

    def __init__(self, group: str) -> None:
        self.names = TopicNames.of(group)
        self.granted: set[Needs] = set()
        self.followed = False
        self.events: EventFeed | None = None
        self._preparing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self.changes = Changes()
        self.jobs: TopicFeed[JobsSnapshot] = TopicFeed(JobsView, self.changes, Complaints(self.names.jobs))
        self.status: TopicFeed[StatusSnapshot] = TopicFeed(
            lambda on_unreadable: StatusView(on_unreadable, self._on_stale, clock=wall_ms),
            self.changes,
            Complaints(self.names.status),
        )

    def preparing(self) -> asyncio.Lock:
        """The running loop's lock for creating the group's topics and checking rights. The result is in ``granted``."""
        return self._preparing.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    @property
    def problem(self) -> TopicError | None:
        """Why one of the topics can't be read at present."""
        return self.jobs.problem or self.status.problem

    @property
    def fault(self) -> ReaderFaultError | None:
        """Why one of the topics is no longer read."""
        problems = (self.jobs.problem, self.status.problem)
        return next((problem for problem in problems if isinstance(problem, ReaderFaultError)), None)

    @property
    def missing(self) -> str | None:
        """The name of a topic that does not exist."""
        problem = self.problem
        return problem.topic if isinstance(problem, NoTopicError) else None

    @property
    def renewals(self) -> Mapping[str, int]:
        """How often each topic was found to have been deleted and created again."""
        return {self.names.jobs: self.jobs.renewals, self.names.status: self.status.renewals}

    def _on_stale(self, key: str, winner: StatusRecord) -> None:
        log.debug("%s: a late record of %s is older than that of epoch %s", self.names.status, key, winner.epoch)
