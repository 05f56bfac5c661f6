"""Decides when a leader looks for reasons to rebalance: when changes have settled, and not all the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from airflow_provider.assignment.learners.model import Limits
from airflow_provider.group.live.classic.leading import (
    later_epoch,
    learned_for_nothing,
    rebalance_asked_for,
    unassigned_work,
    waits_in_vain,
)
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.event_loops.off_loop import REST, SETTLE_S, off_loop
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.blame.evidence import found_a_place
from airflow_provider.state.blame.tried_elsewhere import better_places
from airflow_provider.state.rounds.causes import TRIED_ELSEWHERE
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.free_slots import other_slots, spare_capacity
from airflow_provider.state.views.status_view import StatusSnapshot

_BETWEEN_TRIES_S: Final = 5.0
"""The least time between two rebalances that have failed tasks tried elsewhere: many may fail one after the other."""
_BETWEEN_HELPS_S: Final = 0.4
"""The least time between two rebalances that give work to a worker with a free slot. Together with the time in which
changes settle, a free slot is noticed within half a second.
"""

_TEND_S: Final = 60.0
"""How often a leader looks for records in the topics that are no longer needed."""


def _nothing() -> None:
    """Stands for a subscription that there is not yet."""


class Spacing:
    """Keeps rebalances for one reason apart.

    :param between_s: the least time between two
    :param look: called when the next one may be
    """

    def __init__(self, between_s: float, look: Callable[[], None]) -> None:
        self._between_s = between_s
        self._look = look
        self._last_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def allows(self) -> bool:
        """Whether the last one was long enough ago; if not, look again when it will be."""
        loop = asyncio.get_running_loop()
        self.close()
        at = self._last_at + self._between_s
        if loop.time() < at:
            self._timer = loop.call_at(at, self._look)
            return False
        self._last_at = loop.time()
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LeaderWatch:
    """Watches a stable group while this member leads it, for reasons to rebalance and for records to mend.

    :param limits: how long a task may be learned
    :param record: the newest record that the member has, which may not be read back from the topic yet
    :param want: called with a reason to rebalance
    :param mend: called when a stale record has overwritten a valid one, and from time to time
    :param spawn: runs something in the background
    """

    def __init__(
        self,
        topics: GroupTopics,
        *,
        limits: Limits,
        record: Callable[[], ClassicRecord | None],
        want: Callable[[str], None],
        mend: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._unsubscribe: Callable[[], None] = _nothing
        self._topics = topics
        self._limits = limits
        self._record = record
        self._want = want
        self._mend = mend
        self._spawn = spawn
        self._watching: asyncio.Task[None] | None = None
        self._tending: asyncio.TimerHandle | None = None
        self._tended_at = time.monotonic()
        self._changed: asyncio.Event | None = None
        self._helps = Spacing(_BETWEEN_HELPS_S, self.look)
        self._tries = Spacing(_BETWEEN_TRIES_S, self.look)
        self._overdue_timer: asyncio.TimerHandle | None = None
        self._settle_s = SETTLE_S

    def lead(self, leading: bool) -> None:
        """Set whether this member leads a stable group."""
        if leading is (self._watching is not None):
            return
        if self._watching is None:
            self._unsubscribe = self._topics.subscribe(self.look)
            self._changed = asyncio.Event()
            self._watching = self._spawn(self._watch(self._changed))
            self.look()
            self._tend_later()
        else:
            self._unsubscribe()
            if self._tending is not None:
                self._tending.cancel()
            self._watching.cancel()
            self._watching = self._changed = None

    def look(self) -> None:
        """Look when changes have settled, as something has changed."""
        if self._changed is not None:
            self._changed.set()

    def close(self) -> None:
        self.lead(False)
        self._helps.close()
        self._tries.close()
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()

    def _tend(self) -> None:
        self._tended_at = time.monotonic()
        self._mend()
        self._tend_later()

    def _tend_later(self) -> None:
        """Wait for the rest of the interval. It spans rounds, as a group may rebalance more often than that."""
        wait_s = max(0.0, self._tended_at + _TEND_S - time.monotonic())
        self._tending = asyncio.get_running_loop().call_later(wait_s, self._tend)

    async def _watch(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            await asyncio.sleep(self._settle_s)
            changed.clear()
            began = time.perf_counter()
            reason = await self._reason()
            self._settle_s = max(SETTLE_S, REST * (time.perf_counter() - began))
            if reason is not None:
                self._want(reason)

    async def _reason(self) -> str | None:
        if self._topics.status.overwritten:
            self._mend()
        jobs, status = self._topics.jobs, replace(self._topics.status, group=self._record())
        reason = await off_loop(
            lambda: (
                rebalance_asked_for(jobs, status.group)
                or unassigned_work(jobs, status)
                or later_epoch(status)
                or waits_in_vain(status)
                or learned_for_nothing(jobs, status)
                or other_slots(status)
            ),
            tasks=jobs.planned,
        )
        if reason is not None:
            return reason
        if self._is_learned_too_long():
            return "a task has been learned for too long"
        at_ms = wall_ms()
        tries = await off_loop(lambda: better_places(jobs, status, wall_ms=at_ms), tasks=jobs.planned)
        if tries and self._comes_to_rest() and self._tries.allows():
            return TRIED_ELSEWHERE
        spare = await off_loop(lambda: _spare(jobs, status, at_ms), tasks=jobs.planned)
        return spare if spare is not None and self._helps.allows() else None

    def _comes_to_rest(self) -> bool:
        """Whether no other round follows anyway."""
        record = self._record()
        return record is not None and not (record.revokes or record.delay_ms or record.deadline_ms)

    def _is_learned_too_long(self) -> bool:
        """Whether a lesson has taken too long since the last round; if not, look again when the next one will have."""
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
            self._overdue_timer = None
        record, now = self._record(), wall_ms()
        memory = None if record is None else record.learner_memory
        if record is None or memory is None:
            return False
        due = memory.overdue_at_ms(self._limits, after_ms=record.at_ms)
        if due is None:
            return False
        if now < due:
            self._overdue_timer = asyncio.get_running_loop().call_later((due - now) / 1000, self.look)
        return now >= due


def _spare(jobs: JobsSnapshot, status: StatusSnapshot, at_ms: int) -> str | None:
    pinned = found_a_place(jobs, status, wall_ms=at_ms)
    return spare_capacity(jobs, status, wall_ms=at_ms, pinned=pinned)
