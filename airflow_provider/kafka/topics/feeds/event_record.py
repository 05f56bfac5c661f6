"""Reads a record of a group's events topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider.kafka.topics.feeds.complaints import Complaints
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import Event, decode, event_from_json
from airflow_provider.state.views.topic_view import Unreadable, reason_of

Read = TypeVar("Read")


def read_event(record: Record, complaints: Complaints, take: Callable[[Event], Read]) -> Read | None:
    """Read an event, and return what ``take`` makes of it. None: it can't be read, and was added to ``complaints``."""
    try:
        return take(event_from_json(decode(record.value or b"")))
    except Exception as wrong:  # noqa: BLE001  whatever it is, the other records can be read
        complaints.add(Unreadable(key=record.key, offset=record.offset, reason=reason_of(wrong)))
        return None
