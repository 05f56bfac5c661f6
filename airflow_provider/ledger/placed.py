"""What people have asked for, and where in the jobs topic that stands: whether it is older than something else."""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider.records import HaltRecord, TaskHaltRecord


class Placed(NamedTuple):
    """Who has asked that a job does not run."""

    record: HaltRecord
    offset: int


class PlacedTask(NamedTuple):
    """Who has asked that one task does not run."""

    record: TaskHaltRecord
    offset: int


class Restart(NamedTuple):
    """Who has asked that something starts anew."""

    by: str
    offset: int


class Wanted(NamedTuple):
    """Who has asked for a rebalance."""

    by: str
    offset: int
