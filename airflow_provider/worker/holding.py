"""Holding a worker: one routine for an Airflow task, a trigger and the command line.

What differs between them is given: the group protocol, the settings, what runs the tasks here, and what goes on beside.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider.group.membership import GroupProtocol, KnowsGone, Memberships
from airflow_provider.group.shared import shared_topics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.protocol.model import Epoch
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.topics.rights import WORKER
from airflow_provider.worker.ending import Outcome
from airflow_provider.worker.handed_over import HandedOver
from airflow_provider.worker.narrator import narrated
from airflow_provider.worker.reins import Reins
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.standing_back import Means, SteadyWorker
from airflow_provider.worker.witness import UNWITNESSED, Witness
from airflow_provider.worker.worker import MakeHands, Worker


class Place(Protocol):
    """Where a worker is held: what it has there to run tasks with."""

    @property
    def is_gone(self) -> KnowsGone | None:
        """Which other workers surely have ended, as seen from here; None: from here nothing is seen of them."""

    def make_hands(self, settings: WorkerSettings, topics: GroupTopics) -> MakeHands: ...

    def means(self, settings: WorkerSettings) -> Means: ...


Beside = Callable[[GroupTopics], AbstractAsyncContextManager[object]]
"""What goes on as long as the worker is held."""


def _nothing(_topics: GroupTopics) -> AbstractAsyncContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a worker is held in this process."""

    protocol: GroupProtocol
    settings: WorkerSettings
    place: Place
    beside: Beside = _nothing
    witness: Witness = UNWITNESSED


class Held:
    """A worker of a group whose topics are read, as often as it joins or goes on there.

    :param topics: of the group, read to their ends
    :param narrated_epoch: the last epoch that the worker's log knows
    :ivar epoch: the last epoch that was narrated
    :ivar first_epoch: the first one that was narrated here
    :ivar stopped_running: how many tasks, planners apart, were running here when they were told to stop
    """

    def __init__(
        self, holding: Holding, reins: Reins, topics: GroupTopics, memberships: Memberships, narrated_epoch: Epoch
    ) -> None:
        self.topics = topics
        self.epoch = narrated_epoch
        self.first_epoch: Epoch | None = None
        self.stopped_running = 0
        self._holding = holding
        self._reins = reins
        self._memberships = memberships

    async def run(self, saved: Mapping[str, Any] | None = None) -> Outcome:
        """Hold the worker until it is done, has left, or its membership goes on elsewhere.

        :param saved: of the process that held it before; None to join anew
        :raises ValueError: if this release can't go on with what was saved
        """
        settings, place, topics = self._holding.settings, self._holding.place, self.topics
        make_hands = place.make_hands(settings, topics)

        def make(saved: Mapping[str, Any] | None) -> Worker:
            return Worker(
                settings,
                topics=topics,
                memberships=self._memberships,
                make_hands=make_hands,
                saved=saved,
                witness=self._holding.witness,
            )

        worker = SteadyWorker(settings, topics, make, place.means(settings), saved)
        applied = worker.applied if saved is None else None
        narrating = narrated(topics, settings.member.worker, already_narrated=self.epoch, applied=applied)
        with narrating as narrator, self._reins.on(worker):
            outcome = await worker.run()
        self.first_epoch, self.epoch = self.first_epoch or narrator.first_epoch, narrator.epoch
        self.stopped_running += worker.stopped_running
        return outcome

    def taken_over(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was saved, for a process that can't know whether another one holds the worker still; see
        :meth:`Memberships.taken_over <airflow_provider.group.membership.Memberships.taken_over>`.

        :raises ValueError: if this release can't go on with what was saved
        """
        worker = HandedOver.from_json(saved)
        return {**saved, "member": self._memberships.taken_over(worker.membership)}


@asynccontextmanager
async def held(
    holding: Holding, kafka: KafkaSettings, reins: Reins, *, narrated_epoch: Epoch = Epoch(0)
) -> AsyncIterator[Held]:
    """What a worker needs, as long as the block runs; :meth:`Held.run` holds it.

    :raises RightsError: before it joins: a worker that may not say what it does would hold tasks for nothing
    :raises TopicError: if the group's topics can't be used
    """
    reins.arrived()
    async with (
        shared_topics(kafka, holding.settings.member.group_id, WORKER) as topics,
        holding.protocol.memberships(kafka, topics, holding.place.is_gone) as memberships,
        holding.beside(topics),
        holding.witness.watching(topics),
    ):
        yield Held(holding, reins, topics, memberships, narrated_epoch)
