"""The records that an operation writes, and what they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider.state.operations.operations import Outcome
from airflow_provider.state.records import ActionEvent, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot


class Asked(NamedTuple):
    """Who asks for an operation, and what is in the topics then.

    :param by: ``user@host``, a DAG's task, or the user of a page
    :param at_ms: wall clock, milliseconds since 1970
    """

    jobs: JobsSnapshot
    status: StatusSnapshot
    by: str
    at_ms: int

    def event(self, action: str, subject: str, details: str = "") -> ActionEvent:
        return ActionEvent(action=action, subject=subject, by=self.by, at_ms=self.at_ms, details=details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The records to write, all of them or none, and the outcome.

    :param about: the event's key
    :param jobs: for the jobs topic: the JSON form of each record by its key; None deletes it
    :param tasks: new statuses of tasks
    :param event: for the timeline; None: there is nothing to do
    """

    outcome: Outcome
    about: str = ""
    jobs: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    tasks: Sequence[TaskStatus] = ()
    event: ActionEvent | None = None
