"""Trials on a Spark Connect server that several workers share.

All workers lose their tasks when the server ends, attached or detached, and each tries its own suspects
(``suspects.py``). If two did so at the same time, one would be blamed for what the other's task does. So a worker
begins a trial only when, according to the records, no suspect of other workers is on trial there, is about to begin, or
has come back without a trial so lately. Until then it starts nothing else, either. What was never counted
does not matter: there may always be something new on a busy server, and whatever ends the server is counted soon.

If several workers could begin, they do so one after the other, in the order of their names and a few seconds apart.
Then the next one reads that the first has started. Who has had a turn lets those go first that wait and have had none
since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.trials import trial_length_ms

APART_MS: Final = 5_000
"""How long it takes at most until others have read that a suspect was started."""
_BEGINS_WITHIN_MS: Final = 120_000
"""A server that has just started may keep an attempt waiting for long. After this time its worker may have ended."""


class SharedServers:
    """When one worker may begin a trial on its server.

    :param worker: this worker
    :param tried_from: from so many deaths on, a task needs a trial
    """

    def __init__(self, worker: WorkerId, *, tried_from: int) -> None:
        self._worker = worker
        self._tried_from = tried_from
        self._quiet_since_ms: int | None = None
        self._asked_ms = 0
        self._others_since: set[WorkerId] | None = None
        """Who has had a turn since this worker's last one; None: it has had none."""

    def may_begin(self, batch: list[TaskRun], status: StatusSnapshot, *, now_ms: int, wall_ms: int) -> bool:
        """Whether these may be put on trial now. If so, they are."""
        server = batch[0].runs_on
        if not server:
            return True
        others = [said for said in status.tasks.values() if said.runs_on == server and said.worker != self._worker]
        tried = {other.worker for other in others if _is_on_trial(other, wall_ms) or _begins(other, wall_ms)}
        if tried:
            self._quiet_since_ms = None
            if self._others_since is not None:
                self._others_since |= tried
            return False
        if self._quiet_since_ms is None or now_ms > self._asked_ms + APART_MS:  # nobody has looked since
            self._quiet_since_ms = now_ms
        self._asked_ms = now_ms
        if now_ms < self._quiet_since_ms + self._place_among(others) * APART_MS:
            return False
        self._quiet_since_ms, self._others_since = None, set()
        return True

    def _place_among(self, others: Iterable[TaskStatus]) -> int:
        """How many may begin before this worker: different for each that waits."""
        suspects = [other for other in others if other.state is TaskState.PENDING and other.deaths]
        waiting = {other.worker for other in suspects if other.deaths >= self._tried_from}
        some_return = any(other.deaths < self._tried_from for other in suspects)
        before = sum(other < self._worker for other in waiting) + some_return
        lets_others_go_first = self._others_since is not None and not waiting <= self._others_since
        return before + (len(waiting) + 1 if lets_others_go_first else 0)


def _is_on_trial(said: TaskStatus, wall_ms: int) -> bool:
    """Whether it may still be the reason of the next end of its server."""
    ran_ms = said.running_ms(wall_ms)
    return said.deaths > 0 and ran_ms is not None and ran_ms < trial_length_ms(said)


def _begins(said: TaskStatus, wall_ms: int) -> bool:
    started_ms = said.begins_ms if said.state is TaskState.PENDING else None
    return started_ms is not None and wall_ms - started_ms < _BEGINS_WITHIN_MS
