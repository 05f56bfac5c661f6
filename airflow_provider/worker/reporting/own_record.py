"""A worker's own record in the status topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from airflow_provider.assignment.model import Absence
from airflow_provider.group.membership import MembershipView
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import FailedWarmUp, Lesson, WarmUpDeaths, WorkerPhase, WorkerStatus
from airflow_provider.state.records.envelope import NEWEST_VERSION
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.records.times import time_in_words
from airflow_provider.values.model import NO_TASKS, UNKNOWN_MEMBER_ID, Tasks
from airflow_provider.worker.hands.port import Hands
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.reporting.journal import Journal
from airflow_provider.worker.settings import WorkerSettings

_STARTS_WITHIN_MS: Final = 10_000
"""How much longer than a session its tasks wait for a process or a trigger that Airflow has not started."""


class OwnRecord:
    """The record of one worker, from when it joins until it leaves.

    :param view: gives the present state of its membership
    :param hands: gives its hands
    :ivar absence: what it means for its tasks if the worker is absent
    :ivar slots: how many tasks it starts at the same time
    :ivar leaves_soon: whether it was asked to leave when others have learned what it does not finish
    """

    def __init__(
        self,
        settings: WorkerSettings,
        topics: GroupTopics,
        journal: Journal,
        *,
        view: Callable[[], MembershipView],
        hands: Callable[[], Hands],
    ) -> None:
        self.absence = Absence(returns_ms=settings.returns_ms)
        self.slots = settings.slots
        self.leaves_soon = False
        self.phase: WorkerPhase = settings.phase
        self._settings = settings
        self._topics = topics
        self._journal = journal
        self._view = view
        self._hands = hands
        self._stored = False
        self._soon = False
        self._last_process = self._last_condition = self._last_ui = ""
        self._last_running: Tasks = NO_TASKS
        self._last_awaited_ms = 0

    @property
    def stored(self) -> bool:
        """Whether the record that names this process is stored."""
        return self._stored

    async def write_until_stored(self) -> None:
        """Write which process holds the membership, and wait until this is stored.

        :raises TooLargeError: if no broker will ever take it
        """
        await self._journal.insist(lambda: self._topics.publish_worker(self._status()))
        self._stored = True

    def write(self, phase: WorkerPhase) -> None:
        """Write the record with this phase, from now on."""
        self.phase = phase
        self._write(self._status())

    def write_soon(self, phase: WorkerPhase) -> None:
        """As :meth:`write`, but together with all changes in this turn of the loop."""
        self.phase = phase
        self._write_once()

    def write_again(self) -> None:
        """Write the record again: something other than the phase has changed."""
        self._write(self._status())

    def write_again_soon(self) -> None:
        """As :meth:`write_again`, once for all changes in this turn of the loop."""
        if self._stored:
            self._write_once()

    def write_progress(self, stored: Callable[[bool], None]) -> None:
        """Write the progress of what it learns.

        :param stored: called with whether the record is stored
        """
        status = self._status()
        self._journal.attempt(lambda: self._topics.publish_worker(status), lambda failed: stored(failed is None))

    def write_news(self) -> None:
        """Write the record again if something has changed that no round reports: a JVM was started, which could outlive
        this process, so that the worker's next process has to know it; the condition or the address of Spark's UI has
        changed; tasks wait until it is read back; or, in a triggerer, the running tasks have changed.
        """
        if not self._stored:
            return
        hands = self._hands()
        if self.phase is WorkerPhase.DEFERRED:
            news = (hands.running, hands.condition) != (self._last_running, self._last_condition)
        else:
            last = (self._last_process, self._last_condition, self._last_ui)
            news = (this_process(), hands.condition, hands.spark_ui) != last
        if news or hands.awaits_own_record_since_ms not in (0, self._last_awaited_ms):
            self.write_again()

    def write_handed_over(self) -> None:
        """Write for whom the membership waits now: Airflow may not start it because a pool is full, a DAG is paused, or
        each triggerer is at its capacity. If it is not started while the session lasts, its tasks soon go to others.

        If a task's process ends, the record has no member id, so that nobody takes the membership for gone.
        """
        since = f"(since {time_in_words(wall_ms())})"
        self.absence = replace(self.absence, returns_ms=_STARTS_WITHIN_MS)
        if self.phase is WorkerPhase.DEFERRED:
            self._write(_awaiting(self._status(), Awaited.PROCESS, since))
        else:
            self._write(_awaiting(replace(self._status(), member_id=UNKNOWN_MEMBER_ID), Awaited.TRIGGERER, since))

    def _write_once(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._write_now)

    def _write_now(self) -> None:
        self._soon = False
        self.write_again()

    def _write(self, status: WorkerStatus) -> None:
        self._journal.note(lambda: self._topics.publish_worker(status))

    def _status(self) -> WorkerStatus:
        view, hands, known = self._view(), self._hands(), self._topics.status.group
        self._last_process = this_process() if self.phase is not WorkerPhase.DEFERRED else ""
        self._last_condition, self._last_ui = hands.condition, hands.spark_ui
        self._last_running = hands.running
        self._last_awaited_ms = hands.awaits_own_record_since_ms
        return WorkerStatus(
            worker=self._settings.member.worker,
            state=self.phase,
            epoch=view.epoch or (known.epoch if known else view.epoch),
            slots=self.slots,
            url=self._settings.member.url,
            owned=view.owned,
            running=self._last_running,
            process=self._last_process,
            at_ms=wall_ms(),
            member_id=view.member_id,
            left=self.absence.left,
            returns_ms=self.absence.returns_ms,
            condition=hands.unable or hands.blamed or ("" if self.phase is WorkerPhase.LEFT else self._last_condition),
            learning=tuple(
                Lesson(task, far, far >= self._settings.member.ready_from)
                for task, far in sorted(hands.learning.items())
            ),
            leaves_soon=self.leaves_soon,
            failed_warm_ups=tuple(FailedWarmUp(task, why) for task, why in sorted(hands.failed_warm_ups.items())),
            warm_up_deaths=tuple(WarmUpDeaths(task, times) for task, times in sorted(hands.warm_up_deaths.items())),
            spark_ui=self._last_ui,
            allowed=hands.allowed,
            time_zone=hands.time_zone,
            python_time_zone=hands.python_time_zone,
            reads=NEWEST_VERSION,
        )


def _awaiting(status: WorkerStatus, awaits: Awaited, since: str) -> WorkerStatus:
    return replace(status, awaits=awaits, condition=f"{awaits.in_words} {since}")
