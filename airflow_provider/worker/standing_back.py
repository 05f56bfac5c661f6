"""A worker that stands back from its group while it can't run anything: its tasks are for those who can.

It leaves in order, so that the others have its tasks in that round, tries again and again whether Spark starts, and
joins anew when it does. A worker that is alone in its group does the same: nobody could run its tasks meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from airflow_provider.assignors.model import Absence, LeaveReason
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.ledger.presence import is_same_process
from airflow_provider.ledger.progress import group_drained
from airflow_provider.ledger.records import WorkerPhase
from airflow_provider.ledger.topic_view import About
from airflow_provider.protocol.model import Epoch
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.ending import Ending, Outcome
from airflow_provider.worker.process import this_process
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker

log = logging.getLogger(__name__)

_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 60.0
_LAST_WORD_S: Final = 5.0

_STOPPED: Final = Absence(left=LeaveReason.STOPPED)

MakeWorker = Callable[[Mapping[str, Any] | None], Worker]
"""Makes a worker to join anew, or to go on with what another process has saved of its membership."""


class Means(Protocol):
    """What a worker can't do without."""

    async def start(self) -> str:
        """Try to have it.

        :returns: why it is not to be had; empty if it is there
        """

    async def release(self) -> None:
        """It is needed no more, if it ever was there."""


class SteadyWorker:
    """A worker that comes back to its group as often as it has to leave for want of its means.

    :param make: makes it, for each time that it joins
    :param topics: of the group, read to their ends
    :param saved: of the process that held this membership before, None to join anew
    """

    def __init__(
        self,
        settings: WorkerSettings,
        topics: GroupTopics,
        make: MakeWorker,
        means: Means,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._make = make
        self._means = means
        self._began_at: int = topics.jobs.offset
        self._worker = make(saved)
        self._stopped_before = 0
        self._told_to_leave = False
        self._changed = asyncio.Event()

    @property
    def stopped_running(self) -> int:
        """As of :class:`~airflow_provider.worker.hands.Hands`, in all its lives."""
        return self._stopped_before + self._worker.hands.stopped_running

    def applied(self) -> Epoch:
        """As :meth:`Worker.applied <airflow_provider.worker.worker.Worker.applied>`."""
        return self._worker.applied()

    async def run(self) -> Outcome:
        """As :meth:`Worker.run <airflow_provider.worker.worker.Worker.run>`; it never ends by standing back."""
        try:
            outcome = await self._worker.run()
            while outcome.ending is Ending.STOOD_BACK:
                ending = await self._stand_back(outcome.error or "")
                if ending is not None:
                    return Outcome(ending=ending, epoch=outcome.epoch)
                self._stopped_before = self.stopped_running
                self._began_at = self._topics.jobs.offset
                self._worker = self._make(None)
                outcome = await self._worker.run()
        finally:
            await self._means.release()
        return outcome

    def leave(self, reason: str, absence: Absence = _STOPPED) -> None:
        """As :meth:`Worker.leave <airflow_provider.worker.worker.Worker.leave>`."""
        self._told_to_leave = True
        self._worker.leave(reason, absence)
        self._changed.set()

    async def _stand_back(self, why: str) -> Ending | None:
        """Wait until the worker can do its work; or how it ends without."""
        trying = asyncio.ensure_future(self._try_until_there(why))
        trying.add_done_callback(lambda _: self._changed.set())
        unsubscribe = self._topics.subscribe(self._changed.set, About.JOBS | About.TASKS)
        try:
            while (ending := await self._reason_to_end()) is None and not trying.done():
                await self._changed.wait()
                self._changed.clear()
            if ending is None:
                trying.result()
            else:
                await self._say_that_it_ends()
            return ending
        finally:
            unsubscribe()
            trying.cancel()

    async def _try_until_there(self, why: str) -> None:
        me, wait_s = self._settings.member.worker, _FIRST_WAIT_S
        while why:
            log.warning("worker %s stands back, and tries again in %g s: %s", me, wait_s, why)
            await asyncio.sleep(wait_s)
            why = await self._means.start()
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        log.info("worker %s can run tasks now, and joins its group again", me)

    async def _say_that_it_ends(self) -> None:
        """By its last word it would come back."""
        last = self._topics.status.workers.get(self._settings.member.worker)
        if last is not None and last.state is WorkerPhase.LEFT and is_same_process(last.process, this_process()):
            said = self._topics.publish_worker(replace(last, condition="", at_ms=wall_ms()))
            with contextlib.suppress(TopicError, asyncio.TimeoutError):
                await asyncio.wait_for(said, _LAST_WORD_S)

    async def _reason_to_end(self) -> Ending | None:
        jobs, me = self._topics.jobs, self._settings.member.worker
        if self._told_to_leave:
            return Ending.LEFT
        if jobs.asked_at.get(me, -1) >= self._began_at:
            with contextlib.suppress(TopicError):
                await self._topics.clear_control(jobs.controls[me])
            return Ending.LEFT
        drained = self._settings.until is Until.DRAINED and group_drained(
            jobs, self._topics.status.tasks, since=self._began_at
        )
        return Ending.DRAINED if drained else None
