"""Reads everything that has happened in a group."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.reader import Record, TopicReader
from airflow_provider.state.records import Event, TopicNames, decode, event_from_json

_LIMIT_S: Final = 300.0


def read_events(settings: KafkaSettings, group: str) -> list[Event]:
    """The events of a group, in the order of its events topic.

    :raises TopicError: if the topic can't be read
    """
    events = _Events()
    reader = TopicReader(settings.librdkafka(), Outage(settings.bootstrap_servers))
    try:
        reader.follow({TopicNames.of(group).events: events})
        events.all.result(_LIMIT_S)
    finally:
        reader.close()
    return events.so_far


class _Events:
    """The reader's sink for an events topic."""

    def __init__(self) -> None:
        self.so_far: list[Event] = []
        self.all: Future[None] = Future()

    def take(self, records: Sequence[Record]) -> None:
        self.so_far += [event_from_json(decode(record.value or b"")) for record in records]

    def reached(self, _offset: int) -> None:
        if not self.all.done():
            self.all.set_result(None)

    def again(self) -> None:
        self.so_far.clear()

    def fail(self, error: TopicError) -> None:
        if not self.all.done():
            self.all.set_exception(error)

    def closed(self) -> None:
        """Ignored: by then, all has been read."""
