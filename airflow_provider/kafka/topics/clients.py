"""One set of Kafka clients per connection and process, shared by all memberships, sensors and groups in it."""

from __future__ import annotations

import atexit
import threading

from airflow_provider.kafka.per_process import PerProcess
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.feeds.event_feed import EventFeed
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.producer import TopicWriter
from airflow_provider.kafka.topics.reader import TopicReader


class Clients:
    """The clients of one connection, and the feeds of the groups that are followed with them."""

    def __init__(self, settings: KafkaSettings) -> None:
        config = settings.librdkafka()
        self.outage = Outage(settings.bootstrap_servers)
        self.admin = TopicAdmin(config, self.outage)
        try:
            self.reader = TopicReader(config, self.outage)
        except BaseException:
            self.admin.close()
            raise
        self._config = config
        self._lock = threading.Lock()
        self._writer: TopicWriter | None = None
        self._feeds: dict[str, GroupFeed] = {}
        self._users: dict[str, int] = {}

    @property
    def writer(self) -> TopicWriter:
        """The writer. It is made when first needed, because most users only read."""
        with self._lock:
            if self._writer is None:
                self._writer = TopicWriter(self._config, self.outage)
            return self._writer

    def warm_up(self) -> None:
        """Make the writer, so that it connects in the meantime."""
        _ = self.writer

    @property
    def unused(self) -> bool:
        """Whether no group's feed is in use."""
        return not self._users

    def feed(self, group: str) -> GroupFeed:
        """The feed of a group, for one more user."""
        self._users[group] = self._users.get(group, 0) + 1
        return self._feeds.setdefault(group, GroupFeed(group))

    def follow(self, feed: GroupFeed) -> None:
        """Begin to read a group's topics, if they are not read yet. They should exist: librdkafka takes up to a second
        to find a topic that did not exist when it began to read it.
        """
        with self._lock:
            if not feed.followed:
                feed.followed = True
                self.reader.follow({feed.names.jobs: feed.jobs, feed.names.status: feed.status})

    def follow_events(self, feed: GroupFeed) -> EventFeed:
        """Begin to read a group's events, too, if they are not read yet. It ends with the last user of the feed."""
        with self._lock:
            if feed.events is None:
                feed.events = EventFeed(feed.names.events)
                self.reader.follow({feed.names.events: feed.events})
            return feed.events

    def give_back(self, group: str) -> None:
        """Count one user less of a group's feed. The last one ends it."""
        self._users[group] -= 1
        if not self._users[group]:
            del self._users[group]
            feed = self._feeds.pop(group)
            if feed.followed:
                self.reader.unfollow((feed.names.jobs, feed.names.status))
            if feed.events is not None:
                self.reader.unfollow((feed.names.events,))

    def close(self) -> None:
        """Close the clients. Blocks while records are still being written, for at most some seconds."""
        self.admin.close()
        self.reader.close()
        if self._writer is not None:
            self._writer.close()


class _Open:
    """The clients that a process has open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: dict[KafkaSettings, Clients] = {}


_open = PerProcess(_Open)


def acquire(settings: KafkaSettings, group: str) -> tuple[Clients, GroupFeed]:
    """Get the clients of a connection and the feed of a group. They must be given back with :func:`release`."""
    own = _open.own
    with own.lock:
        clients = own.clients.get(settings)
        if clients is None:
            clients = own.clients[settings] = Clients(settings)
        return clients, clients.feed(group)


def release(settings: KafkaSettings, group: str) -> Clients | None:
    """Give back what :func:`acquire` has returned.

    :returns: the clients, if they are not used any more, and must be closed by the caller; otherwise None
    """
    own = _open.own
    with own.lock:
        clients = own.clients.get(settings)
        if clients is None:  # acquired in the process that this one was forked from
            return None
        clients.give_back(group)
        return own.clients.pop(settings) if clients.unused else None


def _close_all() -> None:
    for clients in _open.own.clients.values():
        clients.close()
    _open.own.clients.clear()


atexit.register(_close_all)
