"""The worker's lease, as its tasks' threads see it (a :class:`~airflow_provider.spark.job.fencing.Lease`)."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.kafka.clock import now_ms
from airflow_provider.spark.job import FencedError


class WorkerLease:
    """Valid as long as this worker's tasks can't have been assigned to another worker.

    :param until_ms: gives the end of the lease by ``now_ms``; None: there is none. It is called at every check. So a
        process that was paused, or whose host was suspended, finds its lease over before it can write.
    :param now_ms: the clock of the membership, in milliseconds
    """

    def __init__(self, until_ms: Callable[[], int | None], now_ms: Callable[[], float] = now_ms) -> None:
        self._until_ms = until_ms
        self._now_ms = now_ms
        self._grant = 0
        self._unbroken_since = 0

    @property
    def grant(self) -> int:
        return self._grant

    def end(self) -> None:
        """All tasks were told to stop. Attempts that start from now on have another grant."""
        self._grant += 1
        if self._left_ms() <= 0:
            self._unbroken_since = self._grant

    def check(self, grant: int) -> None:
        # The clock first: if the lease ends and is granted again during this check, the grant has another number.
        if self._left_ms() <= 0:
            raise FencedError("the worker's lease is over: no heartbeat was answered for a whole session")
        if grant != self._grant:
            raise FencedError("the worker's lease ended while this attempt ran; another worker may own the task by now")

    def left_s(self, grant: int) -> float:
        left = self._left_ms() / 1000  # first, as in check()
        return left if grant >= self._unbroken_since else 0.0

    def _left_ms(self) -> float:
        until = self._until_ms()
        return 0.0 if until is None else until - self._now_ms()
