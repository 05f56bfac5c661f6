"""The ``group`` record of a declarative group, written by the member that has computed a target.

It contains the target, for reports and people. The group itself does not need it: the coordinator remembers everything
that the protocol needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.state.rounds.group_record import GroupRecord, fields_from_json
from airflow_provider.state.rounds.round_json import by_worker_from_json, shares_to_json
from airflow_provider.state.rounds.task_sets import reader_of
from airflow_provider.values.model import Tasks, WorkerId, WriteTasks, tasks_to_json, whole_from_json
from airflow_provider.values.saved import CONNECT


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarativeRecord(GroupRecord):
    """One target of a declarative group.

    :param leader: the worker that has computed it
    :param waits: lost tasks that wait for their worker
    :param asks_at_ms: when the leader asks for the next target (wall clock, ms since 1970); 0: it need not
    """

    waits: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    asks_at_ms: int = 0

    @property
    def round_id(self) -> Mapping[str, int]:
        return {"group epoch": self.epoch}

    @property
    def deadline_ms(self) -> int:
        return self.asks_at_ms

    @property
    def waiting_by_worker(self) -> Mapping[WorkerId, Tasks]:
        return self.waits

    def is_same_round(self, other: GroupRecord) -> bool:
        return isinstance(other, DeclarativeRecord) and (self.epoch, self.leader) == (other.epoch, other.leader)

    def without_memory(self) -> DeclarativeRecord:
        return self

    def to_json(self, write: WriteTasks = tasks_to_json) -> dict[str, Any]:
        return {
            # Without arguments super() looks for the class that slots=True has replaced.
            **super(DeclarativeRecord, self).to_json(write),
            "protocol": CONNECT,
            "waits": shares_to_json(self.waits, write),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DeclarativeRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: the data are not such a record. The message names what is missing or wrong
        """
        try:
            read = reader_of(data)
            return cls(
                **fields_from_json(data, read),
                revoked={},
                waits=by_worker_from_json(data["waits"], read),
                asks_at_ms=whole_from_json(data["deadline_ms"], "a time"),
            )
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"not a group record: {type(wrong).__name__} {wrong}") from wrong


def is_declarative(data: Mapping[str, Any]) -> bool:
    """Whether a group record, as JSON, is that of a declarative group."""
    return data.get("protocol") == CONNECT
