"""An attempt that runs in a thread of this process: its session, and how it is stopped."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import replace
from typing import Final

from airflow_provider.spark.attempts.blame import spark_to_blame
from airflow_provider.spark.attempts.failures import Mask
from airflow_provider.spark.attempts.run_attempt import ended_by, lease_over
from airflow_provider.spark.job.fencing import AttemptGuard
from airflow_provider.spark.limits import UsedUpError
from airflow_provider.spark.local.errors import SparkGoneError
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.runner import (
    LastEvent,
    QueryDetached,
    SparkFaltered,
    TaskConflicted,
    TaskFailed,
    TaskOrder,
    TaskStopped,
)
from airflow_provider.spark.runners.attached_tasks.sessions import AttachedSession
from airflow_provider.spark.runners.threads import start_thread

log = logging.getLogger(__name__)

BATCH_S: Final = 1.5
"""How long a query that is told to stop may take to complete its current batch, which would be repeated otherwise."""
_LOOK_S: Final = 0.01
NO_THREAD_S: Final = 1.0
CANCEL_INTERVAL_S: Final = 0.2
"""How often a stopping task's Spark jobs are cancelled: it may start another one at any time."""


class AttachedAttempt:
    """One attempt.

    :param ended: done when its last event has been handled
    :ivar since: when it was started, in monotonic time
    :ivar begun: whether its start was reported
    :ivar counts: what its Spark jobs had done at the last progress report
    :ivar thread_ended: set when nothing is left to be cancelled
    """

    def __init__(
        self, order: TaskOrder, guard: AttemptGuard, session: AttachedSession, ended: asyncio.Future[None]
    ) -> None:
        self.order = order
        self.guard = guard
        self.session = session
        self.ended = ended
        self.since = time.monotonic()
        self.begun = False
        self.counts = JobCounts()
        self.thread_ended = threading.Event()
        self._lost: SparkGoneError | None = None

    def lose(self, gone: SparkGoneError) -> bool:
        """Stop the attempt because its Spark has ended, which its code may not notice. If its lease is over, Spark has
        ended for that reason, and nobody is to blame.

        :returns: whether somebody is
        """
        if not self.guard.stopping:
            over = lease_over(self.guard)
            self._lost = gone if over is None else None
            self.stop(over or str(gone))
        return self._lost is not None

    def last_word(self, last: LastEvent, mask: Mask) -> LastEvent:
        """The last event to report: if Spark has ended, that is the reason, whatever error the code has raised."""
        if self._lost is not None and isinstance(last, (TaskStopped, TaskFailed, TaskConflicted, SparkFaltered)):
            return ended_by(spark_to_blame(self._lost, mask), self.order)
        if isinstance(last, QueryDetached) and last.otherwise is not None:
            return replace(last, otherwise=self.last_word(last.otherwise, mask))
        return last

    def stop(self, reason: str) -> bool:
        """:returns: whether the job's code was called; if not, it never will be"""
        told_before = self.guard.stopping
        begun = self.guard.stop_soon(reason)
        if not begun:
            self.session.give_up()
        elif not told_before:
            self._begin_to_stop()
        return begun

    def _begin_to_stop(self) -> None:
        if self.thread_ended.is_set():
            return
        try:
            start_thread(self._stop, f"stop-{self.order.task}")
        except UsedUpError as error:
            log.warning("Task %s can't be stopped yet; trying again: %s", self.order.label, error)
            self.ended.get_loop().call_later(NO_THREAD_S, self._begin_to_stop)

    def _stop(self) -> None:
        try:
            self._let_batch_end()
        except Exception as error:  # the lease is over, or Spark
            log.debug("Task %s stops in the middle of a batch", self.order.task, exc_info=error)
        self.guard.stop(self.guard.reason)
        self._cancel_until_ended()

    def _let_batch_end(self) -> None:
        """Let queries complete their current batches while the lease holds. It holds only if the task moves or
        restarts: for all other reasons to stop, it has already ended.
        """
        deadline = time.monotonic() + BATCH_S

        def may_go_on() -> bool:
            self.guard.check_lease()
            return not self.thread_ended.wait(_LOOK_S) and time.monotonic() < deadline

        self.guard.check_lease()
        self.session.await_batch(BATCH_S, may_go_on)

    def _cancel_until_ended(self) -> None:
        level = logging.ERROR
        while not self.thread_ended.is_set():
            try:
                self.session.cancel()
            except Exception:
                log.log(
                    level, "Could not cancel the Spark jobs of task %s; trying again", self.order.label, exc_info=True
                )
                level = logging.DEBUG
            self.thread_ended.wait(CANCEL_INTERVAL_S)
