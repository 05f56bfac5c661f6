"""One member of a classic group that stands for all members of the declarative group of the same name.

Source: KIP-848's rolling migration, whose group coordinator translates between both protocols. No broker does that
here, so the declarative group's coordinator is a member of the classic group, as a worker is one: what a worker runs it
has the declarative group run. See :mod:`airflow_provider.coordinator.bridging`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from airflow_provider.assignors.policy import Deferred
from airflow_provider.bridge.talk import BridgeTalk, still_claimed
from airflow_provider.coordinator.events import BridgeAsks, ToBridge
from airflow_provider.group.leading import last_round
from airflow_provider.group.member import GroupMember
from airflow_provider.group.membership import Ended, HowEnded
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.ledger.progress import configured
from airflow_provider.membership.events import UrlChanged
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.membership.state import MemberState
from airflow_provider.protocol.bridge import BRIDGE
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import Epoch, Tasks
from airflow_provider.records import WorkerPhase, WorkerStatus
from airflow_provider.shards.bridges import PutWord
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.group_topics import GroupTopics

log: Final = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
"""How often it tells how long its lease is by now, and looks whether something has come to its end: then the
declarative group needs a new epoch, and the classic one another round.
"""


class Bridge(GroupMember):
    """The bridge of one group: a membership that is its own listener. On one event loop.

    :param settings: of its membership; its worker is :data:`BRIDGE`
    :param claims: what the members of the declarative group may run
    :param put: takes what it says; any thread may be behind it
    """

    def __init__(
        self, settings: MemberSettings, transport: GroupTransport, topics: GroupTopics, claims: Tasks, put: PutWord
    ) -> None:
        last = last_round(topics.status)
        policy = last.policy if last is not None else None  # should it lead, then as whoever led before
        claims = still_claimed(claims, last, settings.group_id, put, now_ms())
        state = MemberState(settings=settings, owned=claims)
        super().__init__(state, transport, topics, self, policy=policy or Deferred())
        self._talk = BridgeTalk(settings.group_id, claims, self, put, now_ms, last)
        self._over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    @property
    def asks(self) -> BridgeAsks:
        """What it would let go of now."""
        return self._talk.asks

    @property
    def leaving(self) -> bool:
        return self.view.leaving

    async def run(self) -> Ended:
        """Be in the classic group, until that is over."""
        self.begin(Predecessor.GONE)
        try:
            while not self._over.done():
                self._talk.look(configured(self._topics.jobs, self._topics.status.tasks))
                await asyncio.wait((self._over,), timeout=_LOOK_S)
            return self._over.result()
        finally:
            await self.aclose()

    def hear(self, asked: BridgeAsks, answer: ToBridge) -> None:
        """What its coordinator has committed."""
        if self._talk.hear(asked, answer):
            self._say_of_itself()

    def say(self, url: str) -> None:
        """Join again, with this url, if it is another one than before."""
        self.feed(UrlChanged(now_ms=now_ms(), url=url))

    # ---- what its membership says

    def _record_seen(self, record: ClassicRecord) -> None:
        self._talk.read(record)

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        self._talk.start_tasks(tasks, epoch)

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        self._talk.stop_tasks(tasks, reason)

    def start_learning(self, tasks: Tasks) -> None:
        """Nothing is learned: what it owns others run."""

    def stop_learning(self, tasks: Tasks) -> None:
        """Nothing is."""

    def may_leave(self) -> None:
        """It never asks to leave soon."""

    def assigned(self, epoch: Epoch) -> None:
        self._talk.assigned(epoch)
        self._say_of_itself()

    async def farewell(self) -> None:
        with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
            await self._topics.publish_worker(self._status(WorkerPhase.LEFT))

    def ended(self, ended: Ended) -> None:
        if not self._over.done():
            self._over.set_result(ended)

    # ---- its own record, as each worker has one: leaders and onlookers go by it

    def _say_of_itself(self) -> None:
        self._spawn(self._publish(self._status(WorkerPhase.STABLE)))

    async def _publish(self, status: WorkerStatus) -> None:
        try:
            await self._topics.publish_worker(status)
        except (TopicError, TimeoutError, asyncio.TimeoutError) as failed:
            log.warning("group %s: the record of its bridge was not written: %s", self._group_id, failed)

    def _status(self, phase: WorkerPhase) -> WorkerStatus:
        view = self.view
        return WorkerStatus(
            worker=BRIDGE,
            state=phase,
            epoch=self._talk.epoch,
            slots=self._talk.members,
            owned=view.owned,
            member_id=view.member_id,
            at_ms=wall_ms(),
        )


def why_lost(ended: Ended) -> str:
    """What keeps it out of the group; empty: nothing does."""
    return "" if ended.how is HowEnded.LEFT else ended.error or ended.how.value
