"""Trials on a Spark Connect server that several workers share.

All workers lose their tasks when the server ends, and each tries its own suspects (``suspects.py``). If two did so at
the same time, one would be blamed for what the other's task does. So a worker begins a trial only when, according to
the records, nothing of other workers has begun on the server within the time of a trial. If several could begin, they
do so one after the other, in the order of their names and a few seconds apart. Then the next one reads that the first
has begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.tasks.runs.runs import TaskRun

APART_MS: Final = 5_000
"""How long it takes at most until others have read that a trial has begun."""


class SharedServers:
    """When one worker may begin a trial on a server.

    :param worker: this worker
    :param tried_from: from so many deaths on, a task needs a trial
    :param trial_ms: how long a trial takes
    """

    def __init__(self, worker: WorkerId, *, tried_from: int, trial_ms: int) -> None:
        self._worker = worker
        self._tried_from = tried_from
        self._trial_ms = trial_ms
        self._quiet_since_ms: int | None = None
        self._asked_ms = 0

    def may_begin(self, batch: list[TaskRun], status: StatusSnapshot, *, now_ms: int, wall_ms: int) -> bool:
        """Whether these may be put on trial now. If so, they are."""
        servers = {server for run in batch if (server := _server_of(run.after)) is not None}
        if not servers:
            return True
        others = list(self._others(servers, status))
        if any(self._is_young(other, wall_ms) for other in others):
            self._quiet_since_ms = None
            return False
        if self._quiet_since_ms is None or now_ms > self._asked_ms + APART_MS:  # nobody has looked since
            self._quiet_since_ms = now_ms
        self._asked_ms = now_ms
        waiting = (other for other in others if other.state is TaskState.PENDING and other.deaths >= self._tried_from)
        before = {other.worker for other in waiting if other.worker < self._worker}
        if now_ms < self._quiet_since_ms + len(before) * APART_MS:
            return False
        self._quiet_since_ms = None  # before the next batch, it is the others' turn
        return True

    def _others(self, servers: set[str], status: StatusSnapshot) -> Iterator[TaskStatus]:
        """The records of other workers' tasks that run there, or ran there and wait."""
        for said in status.tasks.values():
            handle = said.handle if said.state is TaskState.RUNNING else said.after
            if said.worker != self._worker and _server_of(handle) in servers:
                yield said

    def _is_young(self, said: TaskStatus, wall_ms: int) -> bool:
        started_ms = said.started_at_ms
        return said.state is TaskState.RUNNING and started_ms is not None and wall_ms - started_ms < self._trial_ms


def _server_of(handle: Any) -> str | None:
    """The server on which the query with this handle runs, or ran."""
    server = handle.get("server") if isinstance(handle, dict) else None
    return server if isinstance(server, str) else None
