"""A worker's own record in the status topic: what it says of itself, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from airflow_provider.assignors.model import Absence
from airflow_provider.group.membership import MembershipView
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.protocol.model import NO_TASKS, UNKNOWN_MEMBER_ID, Tasks
from airflow_provider.records import FailedWarmUp, Lesson, WarmUpDeaths, WorkerPhase, WorkerStatus
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.hands import Hands
from airflow_provider.worker.journal import Journal
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.settings import WorkerSettings


class OwnRecord:
    """That of one worker in one of its lives.

    :param view: gives how its membership is now
    :param hands: gives its hands
    :ivar absence: what its absence would mean, or means
    :ivar slots: how many tasks it runs at the same time, of those that it starts
    :ivar leaves_soon: whether it was asked to leave when others have learned what it has
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
        self._said_process = self._said_condition = self._said_ui = ""
        self._said_running: Tasks = NO_TASKS

    @property
    def stored(self) -> bool:
        """Whether the group knows who holds the membership now."""
        return self._stored

    async def announce(self) -> None:
        """Say who holds the membership; returns when that is stored.

        :raises TooLargeError: if no broker will ever take it
        """
        await self._journal.insist(lambda: self._topics.publish_worker(self._status()))
        self._stored = True

    def say(self, phase: WorkerPhase) -> None:
        """Say how the worker is, from now on in this phase."""
        self.phase = phase
        self._note(self._status())

    def say_soon(self, phase: WorkerPhase) -> None:
        """As :meth:`say`, with all that changes in this turn of the loop: what has ended in it may be released yet."""
        self.phase = phase
        self._say_once()

    def say_again(self) -> None:
        """Something else than the phase has changed."""
        self._note(self._status())

    def say_again_soon(self) -> None:
        """Once for all that changes in one turn of the loop."""
        if self._stored:
            self._say_once()

    def say_how_far_it_learns(self, stored: Callable[[bool], None]) -> None:
        """Say how far it is with what it learns.

        :param stored: called with whether that is stored
        """
        status = self._status()
        self._journal.attempt(lambda: self._topics.publish_worker(status), lambda failed: stored(failed is None))

    def say_what_is_new(self) -> None:
        """A JVM was started, and could outlive this process: the next one under this name has to know of it. Or there
        is something else that keeps the tasks from running, or nothing any more. Or that Spark has a page of its own.
        Where nothing is started, what runs was adopted or has ended, and no round says so.
        """
        if not self._stored:
            return
        hands = self._hands()
        if self.phase is WorkerPhase.DEFERRED:
            news = (hands.running, hands.condition) != (self._said_running, self._said_condition)
        else:
            said = (self._said_process, self._said_condition, self._said_ui)
            news = (this_process(), hands.condition, hands.spark_ui) != said
        if news:
            self.say_again()

    def say_that_it_is_handed_over(self) -> None:
        """The process ends now, and the member stays: nobody shall take it for gone meanwhile."""
        if self.phase is not WorkerPhase.DEFERRED:
            self._note(replace(self._status(), member_id=UNKNOWN_MEMBER_ID))

    def _say_once(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._said_soon)

    def _said_soon(self) -> None:
        self._soon = False
        self.say_again()

    def _note(self, status: WorkerStatus) -> None:
        self._journal.note(lambda: self._topics.publish_worker(status))

    def _status(self) -> WorkerStatus:
        view, hands, known = self._view(), self._hands(), self._topics.status.group
        self._said_process = this_process() if self.phase is not WorkerPhase.DEFERRED else ""
        self._said_condition, self._said_ui = hands.condition, hands.spark_ui
        self._said_running = hands.running
        return WorkerStatus(
            worker=self._settings.member.worker,
            state=self.phase,
            epoch=view.epoch or (known.epoch if known else view.epoch),
            slots=self.slots,
            url=self._settings.member.url,
            owned=view.owned,
            running=self._said_running,
            process=self._said_process,
            at_ms=wall_ms(),
            member_id=view.member_id,
            left=self.absence.left,
            returns_ms=self.absence.returns_ms,
            condition=hands.unable or ("" if self.phase is WorkerPhase.LEFT else self._said_condition),
            learning=tuple(
                Lesson(task, far, far >= self._settings.member.ready_from)
                for task, far in sorted(hands.learning.items())
            ),
            leaves_soon=self.leaves_soon,
            failed_warm_ups=tuple(FailedWarmUp(task, why) for task, why in sorted(hands.failed_warm_ups.items())),
            warm_up_deaths=tuple(WarmUpDeaths(task, times) for task, times in sorted(hands.warm_up_deaths.items())),
            spark_ui=self._said_ui,
            allowed=hands.allowed,
        )
