"""The events of a group for one asset watcher, and the bookmark of how far they have been delivered.

The bookmark moves only when Airflow has stored the events. So whoever continues from it, in this triggerer or another
one, misses nothing. If a triggerer dies after the events were stored and before the bookmark has moved, they are
delivered again, with the same ids. So events that already existed when a stream continues are marked as possibly
repeated.

Two triggerers may have the same watcher for a while, if one was stalled and taken for dead. So before events are
delivered, the bookmark is read again, and it never moves back.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.records import TopicNames
from airflow_provider.state.reports.group_events import EventKind, GroupEvent
from airflow_provider.triggers.asset_watchers.bookmarks import Bookmark
from airflow_provider.triggers.connections import Connection, connection_of, with_its_settings
from airflow_provider.values.deadlines import DeadlineError, wait_at_most

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.feeds.event_feed import EventFeed, Told

log = logging.getLogger(__name__)

_AGAIN_S: Final = 5.0
_MOST_AT_ONCE: Final = 100
_SETTLE_S: Final = 5.0
"""Airflow starts a run for the first asset event that its scheduler finds. Events that are stored before the run is
made wait for the next asset event. So what happens at the same time is delivered together, and the next events only
when a run has been made.
"""
_IDLE_S: Final = 60.0
_REFRESH_S: Final = 6 * 60 * 60.0
"""A broker deletes a bookmark that has not been written for some days."""
_PUT_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The events that a watcher wants.

    :param bookmark: the name of its bookmark: a consumer group
    :param job: only events of this job; None: all events
    """

    kafka_conn_id: str
    group: str
    kinds: frozenset[EventKind]
    bookmark: str
    job: str | None = None

    def wants(self, event: GroupEvent) -> bool:
        return event.kind in self.kinds and self.job in (None, event.job)


@dataclass(frozen=True, slots=True)
class Telling:
    """Events that are delivered together.

    :param offset: the offset of the last record that they come from
    :param perhaps_again: they existed before this stream continued from a bookmark, and may have been delivered before
    """

    offset: int
    events: tuple[GroupEvent, ...]
    perhaps_again: bool


class EventStream:
    """The stream of one watcher in one triggerer. It must be closed."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._queue: asyncio.Queue[Telling | Exception] = asyncio.Queue()
        self._open: int | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._next: int | None = None
        self._new_from = 0
        self._renewals = 0
        self._marked = -1
        self._marked_at = 0.0
        self._bookmark: Bookmark | None = None
        self._reachable = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._problem = ""

    async def told(self) -> AsyncIterator[Telling]:
        """The wanted events since the bookmark, and all that follow. Waits for a connection that can't be used."""
        self._reading = asyncio.ensure_future(self._read())
        while True:
            told = await self._queue.get()
            if isinstance(told, Exception):
                raise told
            yield told

    async def stored(self, offset: int) -> None:
        """Airflow has stored the events up to and including this offset.

        :raises TopicError: if the bookmark can't be written for a long time
        """
        until = asyncio.get_running_loop().time() + _PUT_WITHIN_S
        while True:
            try:
                await wait_at_most(max(0.0, until - asyncio.get_running_loop().time()), self._reachable.wait())
                if self._next is not None and offset < self._next:  # otherwise it is of a deleted topic
                    await self._mark(offset + 1)
                break
            except (TopicError, DeadlineError) as problem:
                if asyncio.get_running_loop().time() >= until:
                    raise TopicError(f"{self}: its bookmark can't be written, so events may come twice") from problem
                await asyncio.sleep(_AGAIN_S)
        if self._open is not None and self._open <= offset:
            self._open = None
            asyncio.get_running_loop().call_later(_SETTLE_S, self._settled.set)

    async def aclose(self) -> None:
        """Stop reading, and wait until it has stopped."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def __str__(self) -> str:
        return f"The watcher {self._watched.bookmark} of group {self._watched.group}"

    async def _read(self) -> None:
        try:
            async with connection_of(self._watched.kafka_conn_id) as connection:
                # Not at the top, because a DAG file imports this; in a thread, because it takes long.
                await asyncio.to_thread(importlib.import_module, "airflow_provider.group.live.shared")
                await self._read_on(connection)
        except Exception as fault:  # noqa: BLE001  it is raised where the events are awaited
            self._queue.put_nowait(fault)

    async def _read_on(self, connection: Connection) -> None:
        """Read for ever, and try again after every error of Kafka."""
        while True:
            try:
                await with_its_settings(connection, self.follow)
            except (TopicError, SettingsError) as problem:
                if str(problem) != self._problem:
                    self._problem = str(problem)
                    log.warning("%s is interrupted: %s; trying again", self, problem)
            await asyncio.sleep(_AGAIN_S)

    async def follow(self, settings: KafkaSettings) -> None:
        """Deliver events for ever.

        :raises TopicError: if the topic or the bookmark can't be read
        """
        from airflow_provider.group.live.shared import shared_transport, watched_topics
        from airflow_provider.kafka.topics.rights import TOLD_OF_EVENTS

        group = self._watched.group
        async with shared_transport(settings) as transport:
            bookmark = Bookmark(transport, self._watched.bookmark, TopicNames.of(group).events)
            if self._next is None:
                self._next = await self._begins_at(settings, bookmark)
            async with watched_topics(settings, group, TOLD_OF_EVENTS) as topics:
                feed = topics.follow_events()
                changed = asyncio.Event()
                stop = feed.changes.listen(changed.set)
                self._bookmark = bookmark
                self._renewals = feed.renewals  # each feed has its own count
                try:
                    if await topics.end_of_events() < self._next:
                        await self._begin_anew(bookmark)
                    if self._marked < 0:
                        await bookmark.put(self._next)
                        self._marked = self._next
                    self._reachable.set()
                    while True:
                        changed.clear()
                        if await self._look(bookmark, feed):
                            continue
                        try:
                            await wait_at_most(_IDLE_S, changed.wait())
                        except DeadlineError:
                            await self._mark_idle()
                finally:
                    stop()
                    self._reachable.clear()
                    self._bookmark = None

    async def _begins_at(self, settings: KafkaSettings, bookmark: Bookmark) -> int:
        """The offset of the bookmark. A new watcher begins at the topic's end, or at 0 if there is no group yet."""
        from airflow_provider.kafka.topics.followed import FollowedTopics

        topics = FollowedTopics(settings, self._watched.group)
        try:
            end = await topics.end_of_events()
            left = await bookmark.read()
        finally:
            await topics.aclose()
        # A bookmark behind the end is of a topic that was deleted and created again since.
        begins = end if left is None else left if left <= end else 0
        self._marked = begins if begins == left else -1
        self._new_from = end if begins == left else 0
        log.info("%s begins at offset %d of %d%s", self, begins, end, "" if left is not None else ", it is new")
        return begins

    async def _look(self, bookmark: Bookmark, feed: EventFeed) -> bool:
        """:returns: whether events were delivered, and there may be more
        :raises TopicError: if the topic or the bookmark can't be read
        """
        if feed.problem is not None:
            raise feed.problem
        if not feed.whole:
            return False
        assert self._next is not None
        if feed.renewals != self._renewals:
            self._renewals = feed.renewals
            await self._begin_anew(bookmark)
        await self._settled.wait()
        found, end = feed.since(self._next)
        wanted = [(told, mine) for told in found if (mine := tuple(filter(self._watched.wants, told.events)))]
        if wanted:
            left = await bookmark.read() or 0
            wanted = [(told, mine) for told, mine in wanted if told.offset >= left]
        if wanted:
            self._tell(wanted)
            return True
        self._next = max(self._next, end)
        self._problem = ""
        return False

    async def _begin_anew(self, bookmark: Bookmark) -> None:
        """Begin at 0: the topic was deleted and created again.

        :raises TopicError: if the bookmark can't be written
        """
        self._next, self._new_from = 0, 0
        await bookmark.put(0)
        self._marked = 0

    def _tell(self, wanted: Sequence[tuple[Told, tuple[GroupEvent, ...]]]) -> None:
        """Deliver the events that belong together. The rest comes after these."""
        perhaps_again, together, offset = wanted[0][0].offset < self._new_from, list[GroupEvent](), -1
        for told, mine in wanted:
            if len(together) >= _MOST_AT_ONCE or perhaps_again != (told.offset < self._new_from):
                break
            together += mine
            offset = told.offset
        self._settled.clear()
        self._open, self._next = offset, offset + 1
        self._queue.put_nowait(Telling(offset, tuple(together), perhaps_again))

    async def _mark_idle(self) -> None:
        """Move the bookmark past unwanted events, and write it from time to time when nothing happens."""
        now, offset = asyncio.get_running_loop().time(), self._next
        if self._open is not None or offset is None or (offset == self._marked and now - self._marked_at < _REFRESH_S):
            return
        await self._mark(offset)

    async def _mark(self, offset: int) -> None:
        """:raises TopicError: if it can't be written"""
        if self._bookmark is None:
            raise TopicError(f"{self} has no connection")
        left = await self._bookmark.read()
        if left is None or left <= offset:
            await self._bookmark.put(offset)
        self._marked, self._marked_at = offset, asyncio.get_running_loop().time()
