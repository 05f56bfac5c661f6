"""The records of the jobs topic by which people pause, stop and restart jobs and tasks, and rebalance the group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from airflow_provider.state.records.envelope import COUNT, TEXT
from airflow_provider.state.records.plain import Plain, PlainOfJob


class Halt(str, Enum):
    """Why a job does not run for now."""

    PAUSED = "paused"
    """Its tasks stop but stay assigned. So resuming needs no rebalance, and they find what their worker keeps for them.
    Meanwhile they count in their worker's share.
    """
    STOPPED = "stopped"
    """Its tasks stop and are released. They count in nobody's share, and are assigned again in a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltRecord(PlainOfJob):
    """A job does not run while it has this record.

    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    job: Annotated[str, TEXT]
    halt: Halt
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHaltRecord(PlainOfJob):
    """One task does not run until somebody restarts it: its worker releases it, like the tasks of a stopped job.

    It applies to the task as it was planned. In another run, or with another config, the same index is another task,
    which is not stopped.

    :param run_key: of the job's run
    :param fingerprint: of the work that the task was planned to do
    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    job: Annotated[str, TEXT]
    index: int
    run_key: Annotated[str, TEXT]
    fingerprint: Annotated[str, TEXT]
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord(Plain):
    """The group is to rebalance now. The first round whose leader has read this record is the requested one.

    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRecord(PlainOfJob):
    """What runs of a job, or of one of its tasks, is to be started again where it is.

    It applies to attempts that began before this record was read. So it is done once, however often the record is read
    again, and later attempts ignore it.

    :param index: of the task, -1 for the planner; None: all of them
    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    job: Annotated[str, TEXT]
    index: int | None
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]
