"""The records of the events topic: what happened, for the timeline.

``at_ms`` is wall clock, milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.assignors.model import Memory
from airflow_provider.assignors.record import GroupRecord
from airflow_provider.records.envelope import COUNT, UnreadableRecordError
from airflow_provider.records.group import group_record_from_json
from airflow_provider.records.status import TaskStatus

_REBALANCE: Final = "rebalance"
_TASK: Final = "task"


class _Stamp(msgspec.Struct):
    at_ms: Annotated[int, COUNT]


class _Deadline(msgspec.Struct):
    deadline_ms: Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEvent:
    """A rebalance was completed.

    :param record: as in the status topic, but without the leader's memory
    :param deadline_ms: when the scheduled delay is over; 0: none runs
    """

    record: GroupRecord
    deadline_ms: int
    at_ms: int

    @classmethod
    def of(cls, record: GroupRecord) -> RebalanceEvent:
        return cls(record=record.without_memory(), deadline_ms=record.deadline_ms, at_ms=record.at_ms)

    def to_json(self) -> dict[str, Any]:
        data = self.record.to_json()
        data.pop("memory", None)
        return {**data, "type": _REBALANCE, "deadline_ms": self.deadline_ms, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RebalanceEvent:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        return cls(
            record=group_record_from_json({**data, "memory": Memory().to_json()}),
            deadline_ms=msgspec.convert(data, _Deadline).deadline_ms,
            at_ms=msgspec.convert(data, _Stamp).at_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """A task changed its state."""

    status: TaskStatus
    at_ms: int

    def to_json(self) -> dict[str, Any]:
        return {**self.status.to_json(), "type": _TASK, "at_ms": self.at_ms}

    def encoded(self) -> bytes:
        """The record's value; see :meth:`TaskStatus.encoded`."""
        return self.status.encoded(type=_TASK, at_ms=self.at_ms)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskEvent:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        return cls(status=TaskStatus.from_json(data), at_ms=msgspec.convert(data, _Stamp).at_ms)


Event = RebalanceEvent | TaskEvent


def event_from_json(data: Mapping[str, Any]) -> Event:
    """The event in a record of the events topic.

    :raises ValueError: if it is none; :class:`UnreadableRecordError` if it is of a kind not known here
    """
    match data.get("type"):
        case "rebalance":
            return RebalanceEvent.from_json(data)
        case "task":
            return TaskEvent.from_json(data)
        case other:
            raise UnreadableRecordError(f"an event of the unknown type {other!r}")
