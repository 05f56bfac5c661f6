"""The records of the jobs topic by which people steer what was submitted: whether a job or a task of it runs, what
starts anew, and that the group shares out its tasks now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec

from airflow_provider.records.checks import check_job_name
from airflow_provider.records.envelope import COUNT, TEXT


class Halt(str, Enum):
    """That a job does not run for now."""

    PAUSED = "paused"
    """Its tasks stop and stay where they are: nobody else is given them, so that they go on without a rebalance, and
    with what their worker keeps for them. They count as their worker's share meanwhile.
    """
    STOPPED = "stopped"
    """Its tasks stop and are given up: the group shares out the others without them, and they come back in a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltRecord:
    """A job that does not run. As long as there is none, it does.

    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    job: Annotated[str, TEXT]
    halt: Halt
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]

    def to_json(self) -> dict[str, Any]:
        return {"job": self.job, "halt": self.halt.value, "by": self.by, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HaltRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        record = msgspec.convert(data, cls)
        check_job_name(record.job)
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHaltRecord:
    """One task that does not run, until somebody has it restarted: it is given up, as those of a stopped job are.

    It is about the task as it was planned. In another run, or with another config, the same index is another task:
    that nobody has stopped.

    :param run_key: of the job's run
    :param fingerprint: of what the task was to run
    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    job: Annotated[str, TEXT]
    index: int
    run_key: Annotated[str, TEXT]
    fingerprint: Annotated[str, TEXT]
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "index": self.index,
            "run_key": self.run_key,
            "fingerprint": self.fingerprint,
            "by": self.by,
            "at_ms": self.at_ms,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskHaltRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        record = msgspec.convert(data, cls)
        check_job_name(record.job)
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecord:
    """The group shall rebalance now. The first round whose leader has read this is the one that was asked for.

    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]

    def to_json(self) -> dict[str, Any]:
        return {"by": self.by, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RebalanceRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        return msgspec.convert(data, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRecord:
    """What runs of a job, or of one of its tasks, shall start anew where it is.

    It is about attempts that began when it had not been read. So it is done once, however often it is read again, and
    whoever begins later has nothing to do about it.

    :param index: of the task, -1 for the planner; None: all of them
    :param by: who asked for it, for people
    :param at_ms: wall clock, milliseconds since 1970
    """

    job: Annotated[str, TEXT]
    index: int | None
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]

    def to_json(self) -> dict[str, Any]:
        return {"job": self.job, "index": self.index, "by": self.by, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RestartRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        record = msgspec.convert(data, cls)
        check_job_name(record.job)
        return record
