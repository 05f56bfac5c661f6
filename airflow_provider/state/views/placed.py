"""The requests of people, with their offsets in the jobs topic, which give their order."""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider.state.records import HaltRecord, TaskHaltRecord


class Placed(NamedTuple):
    """A halt of a job."""

    record: HaltRecord
    offset: int


class PlacedTask(NamedTuple):
    """A halt of a single task."""

    record: TaskHaltRecord
    offset: int


class Restart(NamedTuple):
    """A request for a restart, and who has made it."""

    by: str
    offset: int

    def in_words(self) -> str:
        """Why a task is stopped."""
        return f"a restart was requested by {self.by or 'somebody'}"


class Wanted(NamedTuple):
    """A request for a rebalance, and who has made it."""

    by: str
    offset: int
