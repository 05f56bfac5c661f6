"""Keeps tasks from starting while others hold their checkpoints, and looks again as long as there are such tasks.

It looks once a second: no record tells that the lease of a holder who was lost is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from airflow_provider.kafka.clock import now_ms
from airflow_provider.ledger.records import CheckpointClaim, TaskWork
from airflow_provider.protocol.model import Tasks
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.claims import Blocked, Claims
from airflow_provider.worker.run_table import RunTable

_LOOK_S: Final = 1.0


class ClaimWatch:
    """Watches the claims of the tasks that wait in ``runs``.

    :param lease_ms: how long this process may go on when another has taken its worker's name
    :param look_again: is called when it is time to ask :meth:`blocked` again
    """

    def __init__(self, runs: RunTable, topics: GroupTopics, *, lease_ms: int, look_again: Callable[[], None]) -> None:
        self._runs = runs
        self._topics = topics
        self._look_again = look_again
        self._claims = Claims(lease_ms)
        self._timer: asyncio.TimerHandle | None = None

    def claim_of(self, work: TaskWork) -> CheckpointClaim | None:
        """A new claim of the checkpoint that the task's configuration names, if it names one."""
        return self._claims.of(work)

    def blocked(self) -> Tasks:
        """Which tasks may not start yet."""
        blocked = self._compare()
        if blocked.tasks and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._due)
        return blocked.tasks

    def unread(self) -> Tasks:
        """Which claims were written and can't be read: perhaps a word of a later epoch about the task hides them."""
        return self._compare().unread

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._look_again()

    def _compare(self) -> Blocked:
        return self._claims.blocked(self._runs.claiming, self._topics.status, now_ms=now_ms())
