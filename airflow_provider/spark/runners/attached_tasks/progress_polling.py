"""Polls the progress of attempts, and reports what has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.runner import RunnerEvent, TaskProgressed
from airflow_provider.spark.runners.attached_tasks.attached_attempt import AttachedAttempt
from airflow_provider.spark.runners.threads import in_thread

log = logging.getLogger(__name__)


class ProgressPolling:
    """One thread polls all attempts, one after the other. Queries report their progress themselves.

    :param running: gives the attempts that run now
    :param tell: called for each attempt with new progress
    :param every_s: from the end of one poll to the next, in seconds
    """

    def __init__(
        self,
        running: Callable[[], Sequence[AttachedAttempt]],
        tell: Callable[[AttachedAttempt, RunnerEvent], None],
        *,
        every_s: float,
    ) -> None:
        self._running = running
        self._tell = tell
        self._every_s = every_s
        self._looking: asyncio.Task[None] | None = None

    def go_on(self) -> None:
        """Poll while anything runs."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look_again_and_again())

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look_again_and_again(self) -> None:
        while self._running():
            await asyncio.sleep(self._every_s)
            begun = [attempt for attempt in self._running() if attempt.begun]
            counted = await in_thread(lambda: [_count(attempt) for attempt in begun], "spark-progress")  # noqa: B023
            for attempt, counts in zip(begun, counted, strict=True):
                if counts not in (None, attempt.counts) and attempt in self._running():
                    attempt.counts = counts
                    self._tell(attempt, TaskProgressed(order=attempt.order, progress=counts))


def all_done(attempt: AttachedAttempt) -> JobCounts | None:
    """What the Spark jobs of a finished attempt have done, if progress was reported before: the last poll was while
    they were running. Short tasks, of which nothing was reported, are not polled, to save a call to Spark.
    """
    if attempt.counts == JobCounts():
        return None
    try:
        counts = attempt.session.count_at_the_end()
    except Exception:
        log.debug("Can't find the final progress of task %s", attempt.order.label, exc_info=True)
        return None
    return None if counts == attempt.counts else counts


def _count(attempt: AttachedAttempt) -> JobCounts | None:
    """None: unknown; the attempt may be about to end."""
    try:
        return attempt.session.count()
    except Exception:
        log.debug("Can't find the progress of task %s", attempt.order.label, exc_info=True)
        return None
