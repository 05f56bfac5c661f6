"""Takes members out of the group that are known to be gone, while a join waits for them.

The coordinator completes no round before every member has joined, or its session is over: also if all but one know that
this one has ended. So a member that knows says so, with LeaveGroup in its name (KIP-345). With its member id, too: of
somebody who has come back under that name the coordinator has another one, and refuses.

Only while a join waits anyway: a member that is back within its session, and finds the group as it was, costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from airflow_provider.group.membership import KnowsGone
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.kafka.wire.messages import NodeId
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import MemberId, WorkerId
from airflow_provider.topics.group_topics import GroupTopics

log: Final = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
"""Most joins take less."""

_DECIDED: Final = (KafkaErrorCode.NONE, KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_INSTANCE_ID)
"""Other answers are of a coordinator that could not look."""


class GoneMembers:
    """Looks for them on behalf of one member, by what they last said of themselves."""

    def __init__(
        self, settings: MemberSettings, transport: GroupTransport, topics: GroupTopics, is_gone: KnowsGone
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._topics = topics
        self._is_gone = is_gone
        self._removed: set[tuple[WorkerId, MemberId]] = set()

    async def remove_while(self, join: asyncio.Task[None], node: NodeId) -> None:
        """Look from time to time until the join is over.

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
