"""Holds a worker: one routine for Airflow tasks, triggers and the command line.

They pass in what differs: the group protocol, the settings, what runs the tasks, and what else happens meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.group.membership import GroupProtocol, KnowsGone, Memberships
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.values.model import Epoch
from airflow_provider.worker.endings.after_ending import Finding, Next, Process, what_next
from airflow_provider.worker.endings.ending import Outcome
from airflow_provider.worker.endings.handed_over import HandedOver
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.reporting.narrator import narrated
from airflow_provider.worker.reporting.observer import UNOBSERVED, Observer
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.standing_back import SparkStarter, SteadyWorker
from airflow_provider.worker.worker import MakeHands, Worker

log = logging.getLogger(__name__)


class Place(Protocol):
    """Where a worker is held: provides what it needs there to run tasks."""

    @property
    def is_gone(self) -> KnowsGone | None:
        """Tells whether another worker has certainly ended, as seen from here; None: this can't be seen from here."""

    def make_hands(self, settings: WorkerSettings, topics: GroupTopics) -> MakeHands: ...

    def spark_starter(self, settings: WorkerSettings) -> SparkStarter: ...


Beside = Callable[[GroupTopics], AbstractAsyncContextManager[object]]
"""What else runs while the worker is held."""


def _nothing(_topics: GroupTopics) -> AbstractAsyncContextManager[object]:
    return nullcontext()


Find = Callable[[Outcome, GroupTopics], Awaitable[Finding]]
"""What a process finds out when a run has ended in this way."""


async def _looks_for_nothing(_outcome: Outcome, _topics: GroupTopics) -> Finding:
    return Finding.NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a worker is held in this process."""

    protocol: GroupProtocol
    settings: WorkerSettings
    place: Place
    process: Process = Process.COMMAND
    find: Find = _looks_for_nothing
    beside: Beside = _nothing
    observer: Observer = UNOBSERVED


class Held:
    """A worker that is held, over all the times that it joins or continues here.

    :param topics: the group's topics, read to their ends
    :param narrated_epoch: the last epoch in the worker's log
    :ivar epoch: the last epoch that was narrated
    :ivar first_epoch: the first one that was narrated here
    :ivar stopped_running: how many tasks, planners apart, were running here when they were told to stop
    """

    def __init__(
        self,
        holding: Holding,
        exit_requests: ExitRequests,
        topics: GroupTopics,
        memberships: Memberships,
        narrated_epoch: Epoch,
    ) -> None:
        self.topics = topics
        self.epoch = narrated_epoch
        self.first_epoch: Epoch | None = None
        self.stopped_running = 0
        self._holding = holding
        self._exit_requests = exit_requests
        self._memberships = memberships

    async def run(self, saved: Mapping[str, Any] | None = None) -> tuple[Outcome, Next]:
        """Hold the worker until it no longer goes on here.

        :param saved: the membership that another process has saved; None: join as a new member
        :returns: how its last run here has ended, and what comes next
        :raises ValueError: if this release can't read what was saved
        """
        me = self._holding.settings.member.worker
        while True:
            outcome = await self._run(saved)
            found = await self._holding.find(outcome, self.topics)
            then = what_next(self._holding.process, outcome.ending, found)
            if then is Next.GO_ON:
                log.info("There is work again: worker %s continues in this process", me)
                saved = outcome.saved
            elif then is Next.TAKE_OVER and saved is not None:
                saved = self.taken_over(saved)
            elif then is Next.JOIN:
                log.info("Worker %s was held in two places; it joins again as a new member", me)
                saved = None
            else:
                return outcome, then

    async def _run(self, saved: Mapping[str, Any] | None) -> Outcome:
        settings, place, topics = self._holding.settings, self._holding.place, self.topics
        make_hands = place.make_hands(settings, topics)

        def make(saved: Mapping[str, Any] | None) -> Worker:
            return Worker(
                settings,
                topics=topics,
                memberships=self._memberships,
                make_hands=make_hands,
                saved=saved,
                observer=self._holding.observer,
            )

        starter = place.spark_starter(settings)
        worker = SteadyWorker(settings, topics, make, starter, saved, self._holding.process)
        applied = worker.applied if saved is None else None
        narrating = narrated(topics, settings.member.worker, already_narrated=self.epoch, applied=applied)
        with narrating as narrator, self._exit_requests.on(worker):
            outcome = await worker.run()
        self.first_epoch, self.epoch = self.first_epoch or narrator.first_epoch, narrator.epoch
        self.stopped_running += worker.stopped_running
        return outcome

    def taken_over(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        """The saved membership, changed for a process that can't know whether another one still holds the worker; see
        :meth:`Memberships.taken_over <airflow_provider.group.membership.Memberships.taken_over>`.

        :raises ValueError: if this release can't read what was saved
        """
        worker = HandedOver.from_json(saved)
        return {**saved, "member": self._memberships.taken_over(worker.membership)}


@asynccontextmanager
async def held(
    holding: Holding, kafka: KafkaSettings, exit_requests: ExitRequests, *, narrated_epoch: Epoch = Epoch(0)
) -> AsyncIterator[Held]:
    """Open what a worker needs while the block runs; :meth:`Held.run` holds the worker.

    :raises RightsError: before it joins: a worker that may not write to the topics would hold tasks for nothing
    :raises TopicError: if the group's topics can't be used
    """
    exit_requests.arrived()
    async with (
        shared_topics(kafka, holding.settings.member.group_id, WORKER) as topics,
        holding.protocol.memberships(kafka, topics, holding.place.is_gone) as memberships,
        holding.beside(topics),
        holding.observer.watching(topics),
    ):
        yield Held(holding, exit_requests, topics, memberships, narrated_epoch)
