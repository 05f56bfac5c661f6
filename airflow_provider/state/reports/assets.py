"""The assets that a job has written, all its tasks together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider.state.records import TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetReport:
    """What all tasks together have written of an asset.

    :param rows: None: not known
    :param tasks: how many tasks have written it
    """

    name: str
    uri: str
    rows: int | None
    tasks: int

    def with_those(self, other: AssetReport) -> AssetReport:
        """The sum of both reports, under this one's name."""
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return AssetReport(name=self.name, uri=self.uri, rows=rows, tasks=self.tasks + other.tasks)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "uri": self.uri, "rows": self.rows, "tasks": self.tasks}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AssetReport:
        """The inverse of :meth:`to_json`."""
        return cls(name=data["name"], uri=data["uri"], rows=data["rows"], tasks=data["tasks"])


def added_up(finished: Iterable[TaskStatus]) -> tuple[AssetReport, ...]:
    """Add up what these tasks have written, by asset, in the order in which assets are first named.

    A task counts once, however often it was tried: its status is that of the attempt that finished.
    """
    known: dict[tuple[str, str], AssetReport] = {}
    for status in finished:
        for asset in status.wrote:
            one = AssetReport(name=asset.name, uri=asset.uri, rows=asset.rows, tasks=1)
            before = known.get((asset.name, asset.uri))
            known[asset.name, asset.uri] = one if before is None else before.with_those(one)
    return tuple(known.values())
