"""The bridge: a member of a classic group that stands for all members of the declarative group of the same name.

In KIP-848's rolling migration, the broker's group coordinator translates between both protocols. No broker does that
for these groups. So the coordinator of the declarative group is a member of the classic group, like a worker; but the
tasks that it is given run in the declarative group. See
:mod:`airflow_provider.group.declarative.coordinator.handlers.bridging`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.events import UrlChanged
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.declarative.bridge.talk import BridgeTalk, still_claimed
from airflow_provider.group.declarative.coordinator.events import BridgeAsks, BridgeClaims, ToBridge
from airflow_provider.group.declarative.server.migration.bridges import PutWord
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.live.classic.leading import last_round
from airflow_provider.group.membership import Ended, HowEnded
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.records.envelope import NEWEST_VERSION
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import Epoch, Tasks

log: Final = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
"""How often it reports its lease to the coordinator, and checks whether tasks have ended. After the end of a task, the
declarative group needs a new epoch, and so the classic group another round.
"""


class Bridge(GroupMember):
    """The bridge of one group: a membership that is its own listener. Belongs to one event loop.

    :param settings: those of its membership; the worker is :data:`BRIDGE`
    :param claims: what it says it owns
    :param put: takes what the bridge tells its coordinator, perhaps in another thread
    """

    def __init__(
        self,
        settings: MemberSettings,
        transport: GroupTransport,
        topics: GroupTopics,
        claims: BridgeClaims,
        put: PutWord,
    ) -> None:
        last = last_round(topics.status)
        policy = last.policy if last is not None else None  # in case it leads: the policy of the last leader
        claims = still_claimed(claims, last, settings.group_id, put, now_ms())
        state = MemberState(settings=settings, owned=claims.tasks)
        super().__init__(state, transport, topics, self, policy=policy or Deferred())
        self._talk = BridgeTalk(settings.group_id, claims, self, put, now_ms, last)
        self._over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    @property
    def asks(self) -> BridgeAsks:
        """The tasks that it wants to release now."""
        return self._talk.asks

    @property
    def leaving(self) -> bool:
        """Whether it leaves the classic group."""
        return self.view.leaving

    async def run(self) -> Ended:
        """Be a member of the classic group until the membership has ended."""
        self.begin(Predecessor.GONE)
        try:
            while not self._over.done():
                self._talk.look(configured(self._topics.jobs, self._topics.status.tasks))
                await asyncio.wait((self._over,), timeout=_LOOK_S)
            return self._over.result()
        finally:
            await self.aclose()

    def hear(self, asked: BridgeAsks, answer: ToBridge) -> None:
        """Take what its coordinator says, when that is committed."""
        if self._talk.hear(asked, answer):
            self._say_of_itself()

    def say(self, url: str) -> None:
        """Join again if this url differs from the last one."""
        self.feed(UrlChanged(now_ms=now_ms(), url=url))

    # ---- called by its membership

    def _record_seen(self, record: ClassicRecord) -> None:
        self._talk.read(record)

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        self._talk.start_tasks(tasks, epoch)

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        self._talk.stop_tasks(tasks, reason)

    def start_learning(self, tasks: Tasks) -> None:
        """Do nothing: a bridge runs no tasks, so it learns none."""

    def stop_learning(self, tasks: Tasks) -> None:
        """Do nothing: a bridge learns no tasks."""

    def may_leave(self) -> None:
        """Do nothing: a bridge never asks to leave soon."""

    def assigned(self, epoch: Epoch) -> None:
        self._talk.assigned(epoch)
        self._say_of_itself()

    async def farewell(self) -> None:
        with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
            await self._topics.publish_worker(self._status(WorkerPhase.LEFT))

    def ended(self, ended: Ended) -> None:
        if not self._over.done():
            self._over.set_result(ended)

    # ---- its own record: leaders and reports read one of each worker

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
            reads=NEWEST_VERSION,
        )


def why_lost(ended: Ended) -> str:
    """Why the bridge is not in the group; empty: it has left in order."""
    return "" if ended.how is HowEnded.LEFT else ended.error or ended.how.value
