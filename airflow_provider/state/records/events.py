"""The records of the events topic: what happened, for timelines.

``at_ms`` is wall clock, milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.assignment.model import Memory
from airflow_provider.state.records.envelope import COUNT, TEXT, UnreadableRecordError, convert
from airflow_provider.state.records.plain import Plain
from airflow_provider.state.records.status_topic.task_status import TaskStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.reading import group_record_from_json
from airflow_provider.state.rounds.round_json import memory_to_json
from airflow_provider.values.model import WriteTasks, tasks_to_json

_REBALANCE: Final = "rebalance"
_TASK: Final = "task"
_ACTION: Final = "action"


class _Stamp(msgspec.Struct):
    at_ms: Annotated[int, COUNT]


class _Deadline(msgspec.Struct):
    deadline_ms: Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEvent:
    """A completed rebalance.

    :param record: as in the status topic, but without the leader's memory
    :param deadline_ms: when the scheduled delay ends; 0: none runs
    """

    record: GroupRecord
    deadline_ms: int
    at_ms: int

    @classmethod
    def of(cls, record: GroupRecord) -> RebalanceEvent:
        return cls(record=record.without_memory(), deadline_ms=record.deadline_ms, at_ms=record.at_ms)

    def to_json(self, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
        data = self.record.to_json(write)
        data.pop("memory", None)
        return {**data, "type": _REBALANCE, "deadline_ms": self.deadline_ms, "at_ms": self.at_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RebalanceEvent:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        return cls(
            record=group_record_from_json({**data, "memory": memory_to_json(Memory())}),
            deadline_ms=convert(data, _Deadline).deadline_ms,
            at_ms=convert(data, _Stamp).at_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """A change of a task's state."""

    status: TaskStatus
    at_ms: int

    def to_json(self) -> dict[str, Any]:
        return {**self.status.to_json(), "type": _TASK, "at_ms": self.at_ms}

    def encoded(self) -> bytes:
        """The record's value; see :meth:`TaskStatus.encoded`."""
        return self.both_encoded()[1]

    def both_encoded(self) -> tuple[bytes, bytes]:
        """The values of both records of this step: that of the status topic, and its own."""
        status, event = self.status.encoded_with({}, {"type": _TASK, "at_ms": self.at_ms})
        return status, event

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskEvent:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        return cls(status=TaskStatus.from_json(data), at_ms=convert(data, _Stamp).at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEvent(Plain):
    """A request of a user to the group.

    :param action: one word, as on the command line: ``pause``, ``restart``
    :param subject: what it is about: a job, a worker, or a task as ``job:index``
    :param by: the user, as ``user@host``, or a DAG's task as ``dag_id.task_id``
    :param details: more about it, for people
    """

    action: Annotated[str, TEXT]
    subject: Annotated[str, TEXT]
    by: Annotated[str, TEXT]
    at_ms: Annotated[int, COUNT]
    details: Annotated[str, TEXT] = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "type": _ACTION,
            "action": self.action,
            "subject": self.subject,
            "by": self.by,
            "at_ms": self.at_ms,
            "details": self.details,
        }


Event = RebalanceEvent | TaskEvent | ActionEvent


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read an event from a record of the events topic.

    :raises ValueError: if it is not an event; :class:`UnreadableRecordError` if it is of an unknown kind
    """
    match data.get("type"):
        case "rebalance":
            return RebalanceEvent.from_json(data)
        case "task":
            return TaskEvent.from_json(data)
        case "action":
            return ActionEvent.from_json(data)
        case other:
            raise UnreadableRecordError(f"an event of the unknown type {other!r}")
