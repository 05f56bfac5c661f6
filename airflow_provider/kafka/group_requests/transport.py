"""Sends group requests to brokers, for all memberships of one event loop.

A broker answers the requests of a connection one after the other, and answers JoinGroup and SyncGroup only when other
members have sent theirs. So each membership has a connection of its own for these two while it rebalances. It is closed
when it has been idle for a while. All other requests share one connection to each broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.kafka.group_requests.connections import Address, Connections, Owner
from airflow_provider.kafka.group_requests.inspection import DescribeGroups, ListGroups
from airflow_provider.kafka.group_requests.messages import (
    CommittedOffset,
    FindCoordinatorResponse,
    GroupDescription,
    JoinRequest,
    JoinResponse,
    ListGroupsResponse,
    NodeId,
    SyncRequest,
    SyncResponse,
)
from airflow_provider.kafka.group_requests.offsets import OffsetCommit, OffsetFetch
from airflow_provider.kafka.group_requests.requests import FindCoordinator, Heartbeat, LeaveGroup
from airflow_provider.kafka.group_requests.rounds import JoinGroup, SyncGroup
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, WorkerId

# How much longer than the rebalance timeout a JoinGroup may take, as in Kafka's own client (AbstractCoordinator).
_JOIN_LAPSE_MS: Final = 5_000
# How long a membership's connection stays open: long enough for the round that follows when tasks were revoked.
_IDLE_MS: Final = 5_000


class GroupTransport:
    """Sends group requests. An error code of the broker is part of the returned value; a request without an answer
    raises :class:`TransportError`.

    It never retries: the member decides when to try again. It belongs to the event loop in which it is first used.

    :param settings: how to reach the cluster
    :raises SettingsError: a certificate or key can't be read
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.principal = settings.principal
        self._connections = Connections(settings)
        self._request_timeout_ms = settings.request_timeout_ms

    async def find_coordinator(self, group_id: str) -> FindCoordinatorResponse:
        """Ask any broker which broker coordinates the group."""
        found = FindCoordinator.read(await self._connections.ask_any(FindCoordinator(group_id)))
        if found.error is KafkaErrorCode.NONE:
            self._connections.learn(found.node, Address(found.host, found.port))
        return found

    async def join(self, coordinator: NodeId, request: JoinRequest) -> JoinResponse:
        """Join or rejoin. Returns when all members have joined, which may take the rebalance timeout."""
        timeout_ms = max(self._request_timeout_ms, request.rebalance_timeout_ms + _JOIN_LAPSE_MS)
        response = await self._connections.ask_alone(
            coordinator, _owner(request), JoinGroup(request), timeout_ms=timeout_ms, idle_ms=_IDLE_MS
        )
        return JoinGroup.read(response)

    async def sync(self, coordinator: NodeId, request: SyncRequest) -> SyncResponse:
        """Get the assignment; the leader also hands in all assignments. Returns when the leader has done so."""
        response = await self._connections.ask_alone(
            coordinator, _owner(request), SyncGroup(request), timeout_ms=self._request_timeout_ms, idle_ms=_IDLE_MS
        )
        return SyncGroup.read(response)

    async def turn(self) -> None:
        """Wait for a turn. To be awaited before an action that a thousand memberships may take at the same time: a
        heartbeat, or the start of a membership.
        """
        await self._connections.turn()

    async def heartbeat(
        self,
        coordinator: NodeId,
        group_id: str,
        generation: GenerationId,
        member_id: MemberId,
        worker: WorkerId | None,
        *,
        timeout_s: float | None = None,
    ) -> KafkaErrorCode:
        """Tell the coordinator that a member is alive. REBALANCE_IN_PROGRESS means that the member has to join again.

        :param timeout_s: how long the answer may take; None: as long as for other requests
        """
        request = Heartbeat(group_id, generation, member_id, worker)
        return Heartbeat.read(await self._connections.ask(coordinator, request, timeout_s=timeout_s))

    async def leave(
        self,
        coordinator: NodeId,
        group_id: str,
        member_id: MemberId,
        worker: WorkerId | None = None,
        *,
        reason: str = "",
    ) -> KafkaErrorCode:
        """Remove a member from its group for good. For a static member, the instance id is enough.

        :param reason: logged by the broker (KIP-800)
        """
        await self.turn()
        request = LeaveGroup(group_id, member_id, worker, reason)
        return LeaveGroup.read(await self._connections.ask(coordinator, request))

    async def release(self, member: WorkerId | MemberId) -> None:
        """Close the connections that are kept for this member. Otherwise they close after some seconds."""
        self._connections.release(member)

    async def describe(self, group_ids: Iterable[str]) -> tuple[GroupDescription, ...]:
        """Ask the coordinators to describe these groups. The result has the same order."""
        group_ids = tuple(group_ids)
        descriptions: dict[str, GroupDescription] = {}
        by_node: dict[NodeId, list[str]] = {}
        for group_id in group_ids:
            found = await self.find_coordinator(group_id)
            if found.error is KafkaErrorCode.NONE:
                by_node.setdefault(found.node, []).append(group_id)
            else:
                descriptions[group_id] = GroupDescription(error=found.error, group_id=group_id)
        for node, groups in by_node.items():
            answer = DescribeGroups.read(await self._connections.ask(node, DescribeGroups(tuple(groups))))
            descriptions.update((each.group_id, each) for each in answer)
        return tuple(descriptions[group_id] for group_id in group_ids)

    async def list_groups(self) -> ListGroupsResponse:
        """All groups of the cluster. The error is that of the first broker that returned one."""
        answers = [
            ListGroups.read(await self._connections.ask(node, ListGroups())) for node in await self._connections.nodes()
        ]
        error = next((answer.error for answer in answers if answer.error), KafkaErrorCode.NONE)
        groups = sorted((group for answer in answers for group in answer.groups), key=lambda group: group.group_id)
        return ListGroupsResponse(error=error, groups=tuple(groups))

    async def committed(self, coordinator: NodeId, group_id: str, topic: str) -> CommittedOffset:
        """The offset that a consumer group has committed for a topic of one partition."""
        return OffsetFetch.read(await self._connections.ask(coordinator, OffsetFetch(group_id, topic)))

    async def commit(self, coordinator: NodeId, group_id: str, topic: str, offset: int) -> CommittedOffset:
        """Commit an offset of a topic of one partition for a consumer group that has no members."""
        request = OffsetCommit(group_id, topic, offset)
        return request.read(await self._connections.ask(coordinator, request))

    async def aclose(self) -> None:
        """Close all connections. Unanswered requests fail."""
        await self._connections.close()

    async def __aenter__(self) -> GroupTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _owner(request: JoinRequest | SyncRequest) -> Owner | None:
    """The membership that a connection is kept for; None for a member that has no name yet."""
    name = request.group_instance_id or request.member_id
    return Owner(name, request.group_id) if name else None
