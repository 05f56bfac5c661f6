"""Sends the requests of a member to its coordinator, and returns their answers as events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    FindCoordinator,
    HeartbeatAnswered,
    Joined,
    JoinedMember,
    Left,
    Request,
    RequestFailed,
    RequestRejected,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Synced,
)
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live.silence import Silence
from airflow_provider.group.machine.events import Event
from airflow_provider.kafka.clock import now_ms
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.group_requests.messages import JoinRequest, NodeId, SyncRequest
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import PROTOCOL_TYPE, SubProtocol

log: Final = logging.getLogger(__name__)

_SUSPICIOUS: Final = 2**18
"""From so many bytes on, assignments may be too large: a quarter of a broker's default ``message.max.bytes``."""

Question = FindCoordinator | SendJoin | SendSync | SendHeartbeat | SendLeave
"""A command that a broker answers."""

REQUESTS = {
    FindCoordinator: Request.FIND_COORDINATOR,
    SendJoin: Request.JOIN,
    SendSync: Request.SYNC,
    SendHeartbeat: Request.HEARTBEAT,
    SendLeave: Request.LEAVE,
}


class Asking:
    """Sends the requests of one member, and logs when they get no answers.

    :param in_group: whether the member is certainly in its group; only then an answered heartbeat ends the silence
    :ivar heartbeat_waits: a heartbeat has not been sent yet, because those of others come first; another one would only
        make the queue longer
    :ivar whom_to_allow: what to append to an error about a missing right: the user, which the machine does not know
    """

    def __init__(self, settings: MemberSettings, transport: GroupTransport, in_group: Callable[[], bool]) -> None:
        self.heartbeat_waits = False
        self.whom_to_allow = ""
        self._settings = settings
        self._transport = transport
        self._in_group = in_group
        self._silence = Silence(settings.group_id, settings.worker)

    async def ask(self, question: Question) -> Event:
        """Send a request and return the answer as an event; an error code is an answer, too.

        :raises TransportError: if the broker knows no version of the request that we know
        """
        try:
            answer = await self._send(question)
        except (TransportError, TimeoutError, asyncio.TimeoutError) as failed:
            if isinstance(failed, TransportError) and failed.fault is Fault.VERSION:
                raise
            return self.unanswered(REQUESTS[type(question)], question.seq, failed)
        if self._is_good(answer):
            self._silence.over()
        elif isinstance(answer, (RequestRejected, HeartbeatAnswered)):
            unauthorized = answer.error is KafkaErrorCode.GROUP_AUTHORIZATION_FAILED and self._transport.principal
            self.whom_to_allow = f"; grant it to {self._transport.principal}" if unauthorized else ""
        return answer

    def _is_good(self, answer: Event) -> bool:
        if isinstance(answer, HeartbeatAnswered):
            return answer.error is KafkaErrorCode.NONE and self._in_group()
        return isinstance(answer, Synced)

    def unanswered(self, request: Request, seq: int, failed: Exception) -> RequestFailed:
        """Make the event for a request that got no answer, or could not be sent."""
        cause = str(failed) or type(failed).__name__
        self._silence.unanswered(request, cause)
        return RequestFailed(now_ms=now_ms(), seq=seq, request=request, cause=cause)

    async def _send(self, question: Question) -> Event:
        match question:
            case FindCoordinator():
                return await self._find_coordinator(question)
            case SendJoin():
                return await self._join(question)
            case SendSync():
                return await self._sync(question)
            case SendHeartbeat():
                return await self._heartbeat(question)
            case SendLeave():
                return await self._leave(question)

    async def _find_coordinator(self, command: FindCoordinator) -> Event:
        found = await self._transport.find_coordinator(self._settings.group_id)
        if found.error:
            return RequestRejected(
                now_ms=now_ms(), seq=command.seq, request=Request.FIND_COORDINATOR, error=found.error
            )
        return CoordinatorFound(now_ms=now_ms(), seq=command.seq, node=found.node)

    async def _join(self, command: SendJoin) -> Event:
        settings = self._settings
        answer = await self._transport.join(
            NodeId(command.node),
            JoinRequest(
                group_id=settings.group_id,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                member_id=command.member_id,
                group_instance_id=settings.worker,
                protocol_type=PROTOCOL_TYPE,
                protocols=command.protocols,
                reason=command.reason,
            ),
        )
        if answer.error:
            return RequestRejected(
                now_ms=now_ms(),
                seq=command.seq,
                request=Request.JOIN,
                error=answer.error,
                member_id=answer.member_id,
            )
        return Joined(
            now_ms=now_ms(),
            seq=command.seq,
            generation=answer.generation,
            protocol=SubProtocol(answer.protocol),
            leader=answer.leader,
            member_id=answer.member_id,
            skip_assignment=answer.skip_assignment,
            members=tuple(
                JoinedMember(member_id=member.member_id, instance_id=member.group_instance_id, metadata=member.metadata)
                for member in answer.members
            ),
        )

    async def _sync(self, command: SendSync) -> Event:
        answer = await self._transport.sync(
            NodeId(command.node),
            SyncRequest(
                group_id=self._settings.group_id,
                generation=command.generation,
                member_id=command.member_id,
                group_instance_id=self._settings.worker,
                protocol_type=PROTOCOL_TYPE,
                protocol=command.protocol.value,
                assignments=command.assignments,
            ),
        )
        if answer.error:
            if answer.error is KafkaErrorCode.UNKNOWN_SERVER_ERROR and command.assignments:
                self._warn_of_size(sum(map(len, command.assignments.values())))
            return RequestRejected(now_ms=now_ms(), seq=command.seq, request=Request.SYNC, error=answer.error)
        return Synced(now_ms=now_ms(), seq=command.seq, assignment=answer.assignment)

    def _warn_of_size(self, of_assignments: int) -> None:
        """Explain a likely cause: the coordinator stores a round as one record, and does not say if it is too large."""
        if of_assignments >= _SUSPICIOUS:
            log.warning(
                "group %s: the coordinator refuses this round, whose assignments have %d bytes. Together with the"
                " members' metadata, they are one record of __consumer_offsets: if the broker's log says that it is too"
                " large, set offsets.topic.compression.codec=1 (gzip), or raise message.max.bytes",
                self._settings.group_id,
                of_assignments,
            )

    async def _heartbeat(self, command: SendHeartbeat) -> Event:
        self.heartbeat_waits = True
        try:
            await self._transport.turn()
        finally:
            self.heartbeat_waits = False
        settings, sent_at = self._settings, now_ms()
        error = await self._transport.heartbeat(
            NodeId(command.node),
            settings.group_id,
            command.generation,
            command.member_id,
            settings.worker,
            timeout_s=settings.heartbeat_timeout_ms / 1000,
        )
        return HeartbeatAnswered(
            now_ms=now_ms(),
            sent_at_ms=sent_at,
            member_id=command.member_id,
            generation=command.generation,
            error=error,
        )

    async def _leave(self, command: SendLeave) -> Event:
        error = await self._transport.leave(
            NodeId(command.node),
            self._settings.group_id,
            command.member_id,
            self._settings.worker,
            reason=command.reason,
        )
        if error:
            return RequestRejected(now_ms=now_ms(), seq=command.seq, request=Request.LEAVE, error=error)
        return Left(now_ms=now_ms(), seq=command.seq)
