"""A worker stands back from its group while it can't run tasks, so that others run them.

It leaves properly, so that the others get its tasks in that round. If its Spark does not start, it tries that again and
again, after longer and longer pauses, and joins again when it works. If nothing answers where its Spark is to be, a try
costs nothing, so the pauses stay short. A worker that is alone in its group does the same. If the worker is to blame
for failures of its tasks (``state/blame/``), only they can show whether it still is: it joins again after a pause. The
pauses get longer, since each try may cost some tasks an attempt. They end when no other worker is there to run them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from airflow_provider.assignment.model import Absence
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import ControlRecord, WorkerPhase
from airflow_provider.state.views.presence import is_same_process, stay
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.deadlines import Deadline, DeadlineError, wait_at_most
from airflow_provider.values.model import NO_TASKS, Epoch
from airflow_provider.worker.endings.after_ending import Next, Process, what_next
from airflow_provider.worker.endings.confirmation import Confirmation
from airflow_provider.worker.endings.ending import STOPPED, Ending, Outcome
from airflow_provider.worker.endings.reasons import ReasonsToEnd
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.worker import Worker

log = logging.getLogger(__name__)

_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 60.0
_AWAY_WAIT_S: Final = 5.0
_SAY_EACH_S: Final = 60.0
_FIRST_REST_S: Final = 60.0
_LONGEST_REST_S: Final = 1_920.0
_LOOK_S: Final = 5.0
_CALM_S: Final = 3_600.0
"""If a worker was not to blame for this long, its next pause is short again."""
_LAST_WORD_S: Final = 5.0
_END_WITHIN_S: Final = 30.0
"""The longest wait for a server that does not answer: Airflow kills a process that takes a minute to end."""

MakeWorker = Callable[[Mapping[str, Any] | None], Worker]
"""Makes a worker that joins as a new member, or that continues with a saved membership."""


@dataclass(frozen=True, slots=True)
class NoSpark:
    """Why a worker has no Spark.

    :param away: whether nothing answers where it is to be, so that another try costs nothing
    """

    why: str
    away: bool = False


class SparkStarter(Protocol):
    """Starts the Spark that a worker needs."""

    async def start(self) -> NoSpark | None:
        """Try to start it, or to reach it.

        :returns: why this has failed; None: it works
        """

    async def release(self) -> None:
        """Release it, if it was started."""

    async def end_detached_queries(self, topics: GroupTopics) -> None:
        """End all detached queries of the group, because no worker is there to adopt them. This may take long."""


class SteadyWorker:
    """A worker that joins its group again whenever it had to leave because it could not run tasks.

    :param make: makes the worker for each time that it joins
    :param topics: the group's topics, read to their ends
    :param saved: the membership that another process has saved; None: join as a new member
    :param process: which holds it
    """

    def __init__(
        self,
        settings: WorkerSettings,
        topics: GroupTopics,
        make: MakeWorker,
        starter: SparkStarter,
        saved: Mapping[str, Any] | None = None,
        process: Process = Process.COMMAND,
    ) -> None:
        self._process = process
        self._settings = settings
        self._topics = topics
        self._make = make
        self._starter = starter
        self._worker = make(saved)
        self._stopped_before = 0
        self._next_rest_s = _FIRST_REST_S
        self._joined_at = time.monotonic()
        self._told_to_leave = self._comes_back = False
        self._confirmation = Confirmation()
        self._changed: asyncio.Event | None = None

    @property
    def stopped_running(self) -> int:
        """As in :class:`~airflow_provider.worker.hands.port.Hands`, over all the times that it has joined."""
        return self._stopped_before + self._worker.hands.stopped_running

    def applied(self) -> Epoch:
        """As :meth:`Worker.applied <airflow_provider.worker.worker.Worker.applied>`."""
        return self._worker.applied()

    async def run(self) -> Outcome:
        """As :meth:`Worker.run <airflow_provider.worker.worker.Worker.run>`; it never ends by standing back."""
        try:
            outcome = await self._worker.run()
            while what_next(self._process, outcome.ending) is Next.STAND_BACK:
                end = await self._stand_back(outcome)
                if end is not None:
                    return end
                outcome = await self._worker.run()
        finally:
            await self._starter.release()
        return outcome

    def leave(self, reason: str, absence: Absence = STOPPED, confirm_within_s: float = 0.0) -> None:
        """As :meth:`Worker.leave <airflow_provider.worker.worker.Worker.leave>`."""
        self._told_to_leave, self._comes_back = True, absence.at_most_ms != 0
        self._confirmation.expect(confirm_within_s)
        self._worker.leave(reason, absence, confirm_within_s)
        if self._changed is not None:
            self._changed.set()

    def confirm(self, absence: Absence) -> None:
        """As :meth:`Worker.confirm <airflow_provider.worker.worker.Worker.confirm>`."""
        self._comes_back = absence.at_most_ms != 0
        self._confirmation.arrived()
        self._worker.confirm(absence)

    def hand_over(self) -> None:
        """As :meth:`Worker.hand_over <airflow_provider.worker.worker.Worker.hand_over>`."""
        self._worker.hand_over()

    async def _stand_back(self, left: Outcome) -> Outcome | None:
        """Wait until it can run tasks, as far as can be known, and make a new worker.

        :param left: how the last one ended
        :returns: how the worker ends meanwhile; None: it joins again
        """
        changed = self._changed = asyncio.Event()
        trying = asyncio.ensure_future(self._come_back(left))
        trying.add_done_callback(lambda _: changed.set())
        reasons = ReasonsToEnd(
            self._settings, self._topics, began_at=self._worker.reasons.began_at, look_again=changed.set
        )
        reasons.go_on_waiting(self._worker.reasons.waits_since_ms)
        unsubscribe = self._topics.subscribe(changed.set, About.JOBS | About.TASKS)
        try:
            while (end := self._end(reasons, left.epoch)) is None and not trying.done():
                await changed.wait()
                changed.clear()
            if end is None:
                trying.result()
                self._stopped_before = self.stopped_running
                self._worker = self._make(None)
                self._joined_at = time.monotonic()
                self._worker.reasons.go_on_waiting(reasons.waits_since_ms)
            else:
                await self._confirmation.wait()
                await self._say_that_it_ends(reasons.wish)
                await self._leave_nothing_behind()
            return end
        finally:
            unsubscribe()
            reasons.close()
            trying.cancel()

    async def _come_back(self, left: Outcome) -> None:
        why = left.error or ""
        absent = NoSpark(why) if why else None
        if left.ending is Ending.BLAMED:
            await self._rest(why)
            absent = await self._starter.start()
        await self._try_until_there(absent)

    async def _rest(self, why: str) -> None:
        if time.monotonic() - self._joined_at > _CALM_S:
            self._next_rest_s = _FIRST_REST_S
        rest_s, self._next_rest_s = self._next_rest_s, min(2 * self._next_rest_s, _LONGEST_REST_S)
        me = self._settings.member.worker
        log.warning("worker %s stands back, and joins its group again in %g s: %s", me, rest_s, why)
        rest = Deadline(rest_s)
        while (left_s := rest.left_s()) > 0:
            await asyncio.sleep(min(_LOOK_S, left_s))
            if not self._others_stay:
                log.info("no other worker stays in the group of worker %s, so it joins again now", me)
                return

    @property
    def _others_stay(self) -> bool:
        return bool(stay(self._topics.status, wall_ms=wall_ms()) - {self._settings.member.worker})

    async def _try_until_there(self, absent: NoSpark | None) -> None:
        me, next_wait_s, said_at = self._settings.member.worker, _FIRST_WAIT_S, -math.inf
        while absent is not None:
            if absent.away:
                wait_s, next_wait_s = _AWAY_WAIT_S * random.uniform(0.6, 1), _FIRST_WAIT_S  # many may look at once
                when, says = f"every {_AWAY_WAIT_S:g} s", time.monotonic() - said_at >= _SAY_EACH_S
            else:
                wait_s, next_wait_s = next_wait_s, min(2 * next_wait_s, _LONGEST_WAIT_S)
                when, says = f"in {wait_s:g} s", True
            if says:
                said_at = time.monotonic()
                log.warning("worker %s stands back, and tries again %s: %s", me, when, absent.why)
            await asyncio.sleep(wait_s)
            absent = await self._starter.start()
        log.info("worker %s can run tasks now, and joins its group again", me)

    async def _say_that_it_ends(self, wish: ControlRecord | None) -> None:
        """Withdraw its last record, which says that it will come back, and the request to leave, if there is one."""
        last = self._topics.status.workers.get(self._settings.member.worker)
        if last is not None and last.state is WorkerPhase.LEFT and is_same_process(last.process, this_process()):
            with contextlib.suppress(TopicError, DeadlineError):
                ended = replace(last, condition="", at_ms=wall_ms())
                await wait_at_most(_LAST_WORD_S, self._topics.publish_worker(ended))
        if wish is not None:
            with contextlib.suppress(TopicError):
                await self._topics.clear_control(wish)

    async def _leave_nothing_behind(self) -> None:
        """End the detached queries that no worker will adopt, as a worker does that leaves from within its group."""
        if self._comes_back or self._others_stay or not any(self._topics.status.living()):
            return
        with contextlib.suppress(TopicError, DeadlineError):
            await wait_at_most(_END_WITHIN_S, self._starter.end_detached_queries(self._topics))

    def _end(self, reasons: ReasonsToEnd, epoch: Epoch) -> Outcome | None:
        if self._told_to_leave or reasons.wish is not None:
            return Outcome(ending=Ending.LEFT, epoch=epoch)
        if reasons.is_done:
            return Outcome(ending=Ending.DRAINED, epoch=epoch)
        error = reasons.waited_too_long(NO_TASKS)
        return None if error is None else Outcome(ending=Ending.IDLE, epoch=epoch, error=error)
