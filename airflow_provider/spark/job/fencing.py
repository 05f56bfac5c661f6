"""Whether an attempt may still write."""

from __future__ import annotations

import math
import threading
from typing import Final, Protocol

from airflow_provider.spark.job import FencedError

_LOOK_S: Final = 0.05
MOVES: Final = frozenset(
    {"revoked", "learned", "eager", "lease over", "expelled", "fenced", "leaving", "failed", "the worker is closing"}
)
"""The reasons to stop a task that is to go on: on another worker, in another process, or later."""


class Lease(Protocol):
    """The time until which a worker may believe that it owns its tasks. Tasks check it from their threads.

    If a lease has ended and is granted again, it is another lease: another worker may have run the tasks in between. So
    each grant has a number, and an attempt may write only under the grant that it was started with.
    """

    @property
    def grant(self) -> int:
        """The number of the present grant; it grows whenever a lease is granted after another one has ended."""

    def check(self, grant: int) -> None:
        """:raises FencedError: if ``grant`` has ended, by the clock or because there is a newer one"""

    def left_s(self, grant: int) -> float:
        """For how many seconds nobody else can own the tasks of ``grant``, even if it has ended; at most 0: somebody
        may already.
        """


class EndlessLease:
    """The lease of a runner without a group: nobody else can own its tasks."""

    grant = 0

    def check(self, grant: int) -> None: ...

    def left_s(self, _grant: int) -> float:
        return math.inf


class AttemptGuard:
    """Stop signal and fence of one attempt: a :class:`~airflow_provider.spark.job.TaskGuard`, for any thread."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._grant = lease.grant
        self._lock = threading.Lock()
        self._begun = False
        self._thread: int | None = None
        self._stop = threading.Event()
        self._refuses = threading.Event()
        self._told = threading.Event()
        self._reason = ""

    def begin(self) -> None:
        """The job's code is about to be called.

        :raises FencedError: if it must not be called: the attempt was told to stop, or the lease is over
        """
        with self._lock:
            if self.stopping:
                raise self._stopped()
            self.check_lease()
            self._begun, self._thread = True, threading.get_ident()

    def proceed(self) -> None:
        """The start of the attempt is stored, so that others know of it."""
        self._told.set()

    def wait_until_told(self) -> None:
        """Wait for :meth:`proceed`.

        :raises FencedError: if the attempt is told to stop before, or the lease ends
        """
        while not self._told.wait(_LOOK_S):
            self.check()
        self.check()

    def stop(self, reason: str) -> bool:
        """Tell the attempt to stop, and let it write nothing more. The first reason is kept.

        :returns: whether the job's code has been called; if not, it never will be
        """
        with self._lock:
            if not self._stop.is_set():
                self._reason = reason
            self._refuses.set()  # first: code that waits for the stop could otherwise still write
            self._stop.set()
            return self._begun

    def stop_soon(self, reason: str) -> bool:
        """As :meth:`stop`, but a query may complete its current batch: this worker owns the task until it has ended
        here. The job's own code, in the thread that it began in, is not in a batch and may write nothing more.
        """
        with self._lock:
            if not self._stop.is_set():
                self._reason = reason
                self._stop.set()
            return self._begun

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def reason(self) -> str:
        return self._reason

    @property
    def moves(self) -> bool:
        """Whether the attempt was told to stop because the task is to go on elsewhere, or later."""
        return self.stopping and self._reason in MOVES

    def wait(self, timeout_s: float) -> bool:
        return self._stop.wait(timeout_s)

    def check(self) -> None:
        if self.stopping and (self._refuses.is_set() or threading.get_ident() == self._thread):
            raise self._stopped()
        self.check_lease()

    def _stopped(self) -> FencedError:
        return FencedError(f"the task was told to stop: {self._reason}")

    def check_lease(self) -> None:
        self._lease.check(self._grant)

    def lease_left_s(self) -> float:
        """For how many seconds nobody else can own the task."""
        return self._lease.left_s(self._grant)
