"""A warm-up: it has a thread and a session, in which the attempt of its task continues."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from airflow_provider.spark.attempts.failures import Mask
from airflow_provider.spark.job import SparkJob
from airflow_provider.spark.limits import UsedUpError
from airflow_provider.spark.runner import TaskOrder, WarmUpEvent, WarmUpProgressed
from airflow_provider.spark.runners.attached_tasks.attached_attempt import CANCEL_INTERVAL_S, AttachedAttempt
from airflow_provider.spark.runners.attached_tasks.sessions import AttachedSession
from airflow_provider.spark.runners.threads import start_thread
from airflow_provider.spark.warm_up import WarmedUp, WarmUpGuard, warm_up

log = logging.getLogger(__name__)

TELL_EVERY_S: Final = 1.0
"""The least time between two progress reports of a warm-up."""


class Heir(NamedTuple):
    """The attempt that continues with a warm-up.

    :param job: the job object that was warmed up; None: the attempt needs a new one
    """

    attempt: AttachedAttempt
    job: SparkJob | None


class Warming:
    """One warm-up, and the wait for the attempt that continues with it.

    :param order: the order that it prepares for
    :ivar session: its session, which the attempt uses, too
    :ivar ended: done when its thread has finished with it
    """

    def __init__(self, order: TaskOrder, session: AttachedSession, ended: asyncio.Future[None]) -> None:
        self.order = order
        self.session = session
        self.ended = ended
        self._guard = WarmUpGuard()
        self._changed = threading.Condition()
        self._cancelling = threading.Lock()
        self._warm = False
        self._over = False
        self._heir: AttachedAttempt | None = None

    # ---- in the thread of the event loop

    def fits(self, order: TaskOrder) -> bool:
        """Whether the warm-up is for this order."""
        mine = self.order
        return (mine.entry_point, mine.config, mine.run_key, mine.checkpoint_location, mine.bounded) == (
            order.entry_point,
            order.config,
            order.run_key,
            order.checkpoint_location,
            order.bounded,
        )

    def hand_to(self, attempt: AttachedAttempt) -> bool:
        """Let this attempt continue in the thread of the warm-up. An unfinished warm-up is told to stop: it does so
        where it yields or uses Spark next.

        :returns: whether the attempt will continue there; otherwise the warm-up has already ended
        """
        with self._changed:
            if self._over:
                return False
            self._heir = attempt
            self._changed.notify_all()
        self._stop_warm_up()
        return True

    def take_back(self, attempt: AttachedAttempt) -> bool:
        """The warm-up does not stop, so the attempt starts without it.

        :returns: True unless the attempt has already begun here
        """
        with self._changed:
            if self._heir is not attempt:
                return False
            self._heir, self._over = None, True
            return True

    def drop(self) -> None:
        """End the warm-up: no attempt will continue with it."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._stop_warm_up()

    def _stop_warm_up(self) -> None:
        if not self._warm and not self._guard.stopping:
            self._guard.stop()
            try:
                start_thread(self._cancel_until_warm, f"stop-warm-up-{self.order.task}")
            except UsedUpError as error:
                log.warning("The Spark jobs of the warm-up of %s are not cancelled: %s", self.order.label, error)

    # ---- in threads of its own

    def run(self, load: Callable[[], SparkJob], emit: Callable[[WarmUpEvent], None], mask: Mask) -> Heir | None:
        """Warm up, and wait for an attempt.

        :returns: None if no attempt continues with it
        """
        warmed = WarmedUp(outcome=None, job=None)
        if not self._over:
            warmed = warm_up(self.order, self._guard, self.session, load, _throttled(self.order, emit), mask)
        with self._cancelling:  # and never again
            self._warm = True
        with self._changed:
            if warmed.job is None and self._heir is None:
                self._over = True
        if warmed.outcome is not None and self._heir is None:
            emit(warmed.outcome)
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._heir is not None)
            heir, self._heir, self._over = self._heir, None, True
        return None if heir is None else Heir(heir, warmed.job)

    def close(self) -> None:
        """Close its session, which no attempt uses."""
        try:
            self.session.close()
        except Exception:
            log.debug("Could not close the session of the warm-up of %s", self.order.label, exc_info=True)

    def _cancel_until_warm(self) -> None:
        while not self._warm:
            with self._cancelling:
                if not self._warm:
                    self._cancel()
            time.sleep(CANCEL_INTERVAL_S)

    def _cancel(self) -> None:
        try:
            self.session.cancel()
        except Exception:
            log.exception("Could not cancel the Spark jobs of the warm-up of %s; trying again", self.order.label)


def _throttled(order: TaskOrder, emit: Callable[[WarmUpEvent], None]) -> Callable[[float], None]:
    told_at = float("-inf")

    def tell(progress: float) -> None:
        nonlocal told_at
        if time.monotonic() >= told_at + TELL_EVERY_S:
            told_at = time.monotonic()
            emit(WarmUpProgressed(order=order, progress=progress))

    return tell
