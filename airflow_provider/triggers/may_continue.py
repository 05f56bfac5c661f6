"""Whether a trigger may continue the membership that its task has handed over.

Airflow runs two copies of a trigger when a triggerer stalls, or only its connection to the database: another triggerer
takes over its triggers, while the first one's continue until it notices. So the second copy must not use the first
one's member id, because the coordinator could not tell them apart; and a copy that wakes up late must notice it.
"""

from __future__ import annotations

from enum import Enum

from airflow_provider.integration.airflow_api.task_instance import TaskPage
from airflow_provider.state.records import WorkerPhase, WorkerStatus


class Continuation(str, Enum):
    """How a starting trigger may continue."""

    GO_ON = "go on"
    """As the same member: no other process has held the membership since the task deferred."""
    TAKE_OVER = "take over"
    """As a new member under the same name: another triggerer has held the membership, and may still hold it."""
    DOUBT = "doubt"
    """The task itself has continued since. This is an old copy, unless clocks differ a lot."""


def continuation_of(last: WorkerStatus | None, url: str, deferred_at_ms: int) -> Continuation:
    """Decide how a trigger that starts may continue.

    :param last: the worker's last record
    :param url: the page of the trigger's task instance
    :param deferred_at_ms: when the task deferred (wall clock, milliseconds since 1970)
    """
    if last is None or not is_of(last, url):
        return Continuation.GO_ON  # if another process has taken the name, the coordinator will refuse
    if last.state is WorkerPhase.DEFERRED:
        return Continuation.TAKE_OVER
    return Continuation.DOUBT if last.at_ms > deferred_at_ms else Continuation.GO_ON


def is_of(last: WorkerStatus | None, url: str) -> bool:
    """Whether the worker's name was last used for this task instance, in any of its tries."""
    mine = TaskPage.of(url)
    return last is not None and mine is not None and TaskPage.of(last.url) == mine
