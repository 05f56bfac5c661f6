"""Trials on a Spark Connect server that several workers share.

All workers lose their tasks when the server ends, attached or detached, and each tries its own suspects
(``suspects.py``). If two did so at the same time, one would be blamed for what the other's task does. So a worker
begins a trial only when, according to the records, no suspect of other workers is on trial there, is about to begin, or
has come back without a trial so lately. Until then it starts nothing else, either. What was never counted
does not matter: there may always be something new on a busy server, and whatever ends the server is counted soon.

If several workers could begin, they do so one after the other, in the order of their names and a few seconds apart.
Then the next one reads that the first has started. Who has had a turn lets those go first that wait and have had none
since.

What was counted and needs no trial, or starts again between two trials of its worker (``between_trials.py``), does not
begin beside a trial of another worker. If it fails again and again, with short pauses, it would keep off the trials of
others for ever. So it starts again once, and then lets another worker go first that waits: until that has had its turn,
or has not begun in time though nothing kept it from it. What comes back after an end of the server does so at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.state.records import TaskKind, TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.spark_deaths.trials import FIRST_BATCH_MS, TRIAL_MS, trial_length_ms

APART_MS: Final = 5_000
"""How long it takes at most until others have read that a suspect was started."""
_BEGINS_WITHIN_MS: Final = 120_000
"""A server that has just started may keep an attempt waiting for long. After this time its worker may have ended."""


class _Quiet:
    """For how long this worker has seen nothing that keeps it waiting, as often as it has asked."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._asked_ms = 0

    def ends(self) -> None:
        self._since_ms = None

    def lasts(self, turns: int, now_ms: int) -> bool:
        """Whether it has lasted for so many turns of others."""
        if self._since_ms is None or now_ms > self._asked_ms + APART_MS:  # nobody has looked since
            self._since_ms = now_ms
        self._asked_ms = now_ms
        return now_ms >= self._since_ms + turns * APART_MS


class SharedServers:
    """When one worker may begin a trial on its server.

    :param worker: this worker
    :param tried_from: from so many deaths on, a task needs a trial
    """

    def __init__(self, worker: WorkerId, *, tried_from: int) -> None:
        self._worker = worker
        self._tried_from = tried_from
        self._quiet, self._quiet_for_others = _Quiet(), _Quiet()
        self._have_come_again = False
        self._others_since: set[WorkerId] | None = None
        """Who has had a turn since this worker's last one; None: it has had none."""

    def may_begin(self, batch: list[TaskRun], status: StatusSnapshot, *, now_ms: int, wall_ms: int) -> bool:
        """Whether these may be put on trial now. If so, they are."""
        server = batch[0].runs_on
        if not server:
            return True
        others = [said for said in _there(server, status) if said.worker != self._worker]
        tried = {other.worker for other in others if _is_on_trial(other, wall_ms) or _begins(other, wall_ms)}
        if tried:
            self._quiet.ends()
            if self._others_since is not None:
                self._others_since |= tried
            return False
        if not self._quiet.lasts(self._place_among(others), now_ms):
            return False
        self._quiet.ends()
        self._others_since = set()
        return True

    def let_others_go_first(self, server: str, status: StatusSnapshot, *, now_ms: int, wall_ms: int) -> bool:
        """Whether what starts again here waits, because another worker tries a suspect, or is to do so next.

        :param server: the server that this worker uses; empty: none
        """
        there = _there(server, status) if server else []
        counted = [said for said in there if _is_on_trial(said, wall_ms) or _begins(said, wall_ms)]
        if any(self._is_tried_elsewhere(said) for said in counted):
            self._have_come_again = False
        else:
            waiting = {said.worker for said in there if self._is_tried_elsewhere(said) and _waits(said, wall_ms)}
            if not waiting or not self._have_come_again:
                return False
            if not counted:
                return not self._quiet_for_others.lasts(len(waiting) + 2, now_ms)
        self._quiet_for_others.ends()
        return all((said.running_ms(wall_ms) or 0) < TRIAL_MS for said in counted)  # longer ones keep off the others

    def have_come_again(self) -> None:
        """Something has started again here: the next turn is that of the other workers."""
        self._have_come_again = True
        self._quiet_for_others.ends()

    def come_again_at_once(self) -> None:
        """Their server has ended. Until suspects of it are tried, what starts again puts off nobody's trial."""
        self._have_come_again = False

    def _is_tried_elsewhere(self, said: TaskStatus) -> bool:
        """Whether it needs a trial, and another worker has it."""
        return said.worker != self._worker and said.deaths >= self._tried_from

    def _place_among(self, others: Iterable[TaskStatus]) -> int:
        """How many may begin before this worker: different for each that waits."""
        suspects = [other for other in others if other.state is TaskState.PENDING and other.deaths]
        waiting = {other.worker for other in suspects if other.deaths >= self._tried_from}
        some_return = any(other.deaths < self._tried_from for other in suspects)
        before = sum(other < self._worker for other in waiting) + some_return
        lets_others_go_first = self._others_since is not None and not waiting <= self._others_since
        return before + (len(waiting) + 1 if lets_others_go_first else 0)


def _there(server: str, status: StatusSnapshot) -> list[TaskStatus]:
    return [said for said in status.tasks.values() if said.runs_on == server]


def _waits(said: TaskStatus, wall_ms: int) -> bool:
    """Whether it could be tried now."""
    return said.state is TaskState.PENDING and (said.retry_at_ms is None or said.retry_at_ms <= wall_ms)


def _is_on_trial(said: TaskStatus, wall_ms: int) -> bool:
    """Whether it may still be the reason of the next end of its server. Only its worker sees when a stream has moved,
    and takes back its count when the trial is over.
    """
    ran_ms = said.running_ms(wall_ms)
    first_batch_ms = FIRST_BATCH_MS if said.kind is TaskKind.STREAMING else 0
    return said.deaths > 0 and ran_ms is not None and ran_ms < trial_length_ms(said) + first_batch_ms


def _begins(said: TaskStatus, wall_ms: int) -> bool:
    started_ms = said.begins_ms if said.state is TaskState.PENDING else None
    return started_ms is not None and wall_ms - started_ms < _BEGINS_WITHIN_MS
