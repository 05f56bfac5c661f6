"""A group whose events are watched in the tests of that, in place of a Kafka: an events topic and its bookmarks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from airflow_provider.group.live import shared
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics import followed
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.feeds.event_feed import EventFeed
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.kafka.topics.rights import TOLD_OF_EVENTS, WATCHER, Needs
from airflow_provider.state.records import TaskEvent, TaskFailure, TaskState, TaskStatus, TopicNames
from airflow_provider.triggers.asset_watchers import event_stream
from airflow_provider.values.model import Epoch, TaskId, WorkerId

SETTINGS = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092"}, conn_id="c")


def failed(index: int) -> bytes:
    """The record of a task that has failed for good."""
    status = TaskStatus(
        task=TaskId("job", index),
        state=TaskState.FAILED,
        epoch=Epoch(1),
        worker=WorkerId("w1"),
        error=TaskFailure.of("no luck"),
    )
    return TaskEvent(status=status, at_ms=index).encoded()


class WatchedGroup:
    """What all triggerers see of the group ``g``.

    :ivar records: in the topic; None: there is no topic
    :ivar marks: the bookmarks
    :ivar settings: of the connection
    :ivar away: what the broker says to whoever asks about bookmarks, instead of an answer
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = TopicNames.of("g")
        self.records: list[bytes] | None = None
        self.marks: dict[tuple[str, str], int] = {}
        self.puts: list[int] = []
        self.away: TopicError | None = None
        self.settings = SETTINGS
        self.feeds: list[EventFeed] = []
        self._shared: EventFeed | None = None
        group = self

        class Topics:
            def __init__(self, settings: KafkaSettings, group_id: str, needs: Needs = WATCHER) -> None:
                self.names = group.names

            async def end_of_events(self, *, timeout_s: float = 30.0) -> int:
                return len(group.records or ())

            async def aclose(self) -> None: ...

            def follow_events(self) -> EventFeed:
                return group.new_feed()

        @asynccontextmanager
        async def watched_topics(
            settings: KafkaSettings, group_id: str, needs: Needs = WATCHER, *, timeout_s: float | None = None
        ) -> AsyncIterator[Topics]:
            assert (group_id, needs) == ("g", TOLD_OF_EVENTS)
            yield Topics(settings, group_id)

        @asynccontextmanager
        async def shared_transport(settings: KafkaSettings) -> AsyncIterator[object]:
            yield object()

        async def aget_settings(_hook: SparkGroupHook) -> KafkaSettings:
            return group.settings

        async def reach(settings: KafkaSettings) -> None: ...

        monkeypatch.setattr(followed, "FollowedTopics", Topics)
        monkeypatch.setattr(shared, "watched_topics", watched_topics)
        monkeypatch.setattr(shared, "shared_transport", shared_transport)
        monkeypatch.setattr(shared, "reach", reach)
        monkeypatch.setattr(
            event_stream, "Bookmark", lambda _transport, name, topic: WatchedBookmark(group, (name, topic))
        )
        monkeypatch.setattr(SparkGroupHook, "aget_settings", aget_settings)

    def share_a_feed(self) -> EventFeed:
        """Whoever follows from now on shares this one, as all of a process do as long as one of them reads."""
        self._shared = None
        self._shared = self.new_feed()
        return self._shared

    def new_feed(self) -> EventFeed:
        if self._shared is not None:
            return self._shared
        feed = EventFeed(self.names.events)
        self.feeds.append(feed)
        if self.records is not None:
            self._give(feed, 0)
        return feed

    def write(self, *values: bytes) -> None:
        begins = len(self.records or ())
        self.records = [*(self.records or ()), *values]
        for feed in self.feeds:
            self._give(feed, begins)

    def delete_topic(self) -> None:
        self.records = []
        for feed in self.feeds:
            feed.reached(0)

    def _give(self, feed: EventFeed, begins: int) -> None:
        assert self.records is not None
        new = [Record(b"task", value, offset) for offset, value in enumerate(self.records)][begins:]
        if new:
            feed.take(new)
        feed.reached(len(self.records))

    def answer(self) -> None:
        """:raises TopicError: if the broker is away"""
        if self.away is not None:
            raise self.away

    def mark(self) -> int | None:
        """The only bookmark."""
        return next(iter(self.marks.values()), None)


class WatchedBookmark:
    """One of the group's bookmarks.

    :param names: its own, and its topic's
    """

    def __init__(self, group: WatchedGroup, names: tuple[str, str]) -> None:
        self._group = group
        self._names = names

    async def read(self) -> int | None:
        self._group.answer()
        return self._group.marks.get(self._names)

    async def put(self, offset: int) -> None:
        self._group.answer()
        self._group.puts.append(offset)
        self._group.marks[self._names] = offset
