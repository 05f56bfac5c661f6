"""Removes members that are known to have ended, while a join waits for them.

The coordinator completes a round only when each member has joined or its session has ended, even if the others know
that one of them has ended. So a member that knows it sends LeaveGroup for that one (KIP-345), with its member id: if a
worker has returned under that name, its member id is another one, and the coordinator refuses.

This is done only while a join waits: a member that returns within its session to an unchanged group costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.membership import KnowsGone
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.group_requests.messages import NodeId
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, WorkerId

log: Final = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
"""Seconds between two looks. Most joins take less."""

_DECIDED: Final = (KafkaErrorCode.NONE, KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_INSTANCE_ID)
"""Answers that settle a removal. With any other, the coordinator could not look."""


class GoneMembers:
    """Finds such members for one member, by the records that they wrote last."""

    def __init__(
        self, settings: MemberSettings, transport: GroupTransport, topics: GroupTopics, is_gone: KnowsGone
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._topics = topics
        self._is_gone = is_gone
        self._removed: set[tuple[WorkerId, MemberId]] = set()

    async def remove_while(self, join: asyncio.Task[None], node: NodeId) -> None:
        """Look from time to time until the join is answered.

        :param node: the coordinator
        """
        while not (await asyncio.wait({join}, timeout=_LOOK_S))[0]:
            status = self._topics.status
            members = frozenset(status.group.members if status.group else ()) - {self._settings.worker}
            for said in [status.workers[worker] for worker in members if worker in status.workers]:
                if said.member_id and self._is_gone(said):
                    await self._remove(said.worker, said.member_id, node)

    async def _remove(self, worker: WorkerId, member_id: MemberId, node: NodeId) -> None:
        if (worker, member_id) in self._removed:
            return
        try:
            error = await self._transport.leave(
                node, self._settings.group_id, member_id, worker, reason="its process has ended"
            )
        except (TransportError, TimeoutError, asyncio.TimeoutError) as failed:
            log.debug("group %s: worker %s could not be removed: %s", self._settings.group_id, worker, failed)
            return
        if error in _DECIDED:
            self._removed.add((worker, member_id))
        if error is KafkaErrorCode.NONE:
            log.info("group %s: removed worker %s, whose process has ended", self._settings.group_id, worker)
