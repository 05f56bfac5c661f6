"""What people have asked for, with its offset in the jobs topic, which tells what is older."""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider.records import HaltRecord, TaskHaltRecord


class Placed(NamedTuple):
    """That a job shall not run."""

    record: HaltRecord
    offset: int


class PlacedTask(NamedTuple):
    """That one task shall not run."""

    record: TaskHaltRecord
    offset: int


class Restart(NamedTuple):
    """Who has asked for a restart."""

    by: str
    offset: int

    def in_words(self) -> str:
        """Why a task is stopped."""
        return f"it is to start anew, says {self.by or 'somebody'}"


class Wanted(NamedTuple):
    """Who has asked for a rebalance."""

    by: str
    offset: int
