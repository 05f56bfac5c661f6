"""The records that an operation writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.state.operations.operations import Outcome
from airflow_provider.state.records import ActionEvent, TaskStatus


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
