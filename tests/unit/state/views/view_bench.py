"""A topic that feeds a view."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from airflow_provider.state.records import (
    encode,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot, JobsView
from airflow_provider.state.views.status_view import StatusSnapshot, StatusView


class Record(Protocol):
    def to_json(self) -> dict[str, Any]: ...


Snapshot = JobsSnapshot | StatusSnapshot
View = TypeVar("View", bound="JobsView | StatusView")
Stale = tuple[str, object]
Place = tuple[str | int, ...]


class Log(Generic[View]):
    """Feeds a view as a topic would."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.end = 0

    def write(self, key: str | bytes, record: Record | bytes | None) -> None:
        value = record if record is None or isinstance(record, bytes) else encode(record.to_json())
        self.write_at(self.end, key, value)

    def write_at(self, offset: int, key: str | bytes, value: bytes | None) -> None:
        self.end = self.view.apply(key.encode() if isinstance(key, str) else key, value, offset)
        assert self.end == offset + 1
