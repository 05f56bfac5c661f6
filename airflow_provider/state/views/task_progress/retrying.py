"""The records by which tasks that have failed for good are tried again. Pure.

Within an epoch no record of an attempt replaces that of its end. So these records are about the next attempt, which has
not begun. A worker that keeps the failed task begins it when it reads the record. If no worker has the task, a leader
assigns it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId, planner_of
from airflow_provider.values.replacing import replaced

ALL_RETRIES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **dict.fromkeys(("failures", "forgiven", "conflicts"), 0),
        **dict.fromkeys(("spark_deaths", "process_deaths", "died_alone", "acquitted"), 0),
        "conflict_since_ms": None,
        "failed_on": (),
        "last_try": False,
    }
)
"""What the record of a task says, and its worker knows, when nothing has gone wrong yet."""
_MOST_NAMED: Final = 10


def to_try_again(
    definition: JobDefinition,
    plan: PlanRecord | None,
    statuses: Mapping[TaskId, TaskStatus],
    indexes: Collection[int] | None = None,
) -> list[TaskStatus]:
    """The records that have failed tasks of the job's present run tried again, with all their retries.

    :param indexes: the tasks (-1: the planner); None: all
    """
    failed = (
        status
        for task, fingerprint in _fingerprints(definition, plan)
        if indexes is None or task.index in indexes
        if (status := statuses.get(task)) is not None and status.state is TaskState.FAILED
        if status.is_of(definition.run_key, fingerprint)
    )
    return [
        replaced(
            status,
            state=TaskState.UNASSIGNED,
            attempt=status.attempt + 1,
            started_at_ms=None,
            finished_at_ms=None,
            progress=None,
            **ALL_RETRIES,
        )
        for status in failed
    ]


def _fingerprints(definition: JobDefinition, plan: PlanRecord | None) -> Iterator[tuple[TaskId, str]]:
    yield planner_of(definition.name), definition.fingerprint
    if plan is not None and plan.holds_for(definition):
        for index, fingerprint in enumerate(plan.fingerprints):
            yield TaskId(definition.name, index), fingerprint


def retried_in_words(job: str, retried: Sequence[TaskId | str]) -> str:
    """For a log, or a terminal."""
    if not retried:
        return f"nothing of job {job} has failed"
    one = len(retried) == 1
    named = in_short(retried, most=_MOST_NAMED)
    return f"{len(retried)} failed task{'' if one else 's'} of job {job} {'is' if one else 'are'} tried again: {named}"
