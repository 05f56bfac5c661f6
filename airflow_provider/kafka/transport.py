"""Group requests to brokers, for all memberships of one event loop.

A broker answers the requests of a connection one after the other, and JoinGroup and SyncGroup only when others have
done their part. So each membership has a connection of its own for these two while it rebalances, closed when it has
been idle for a while; what is answered immediately goes over one connection per broker that all share.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.kafka.errors import KafkaErrorCode
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.wire.connections import Address, Connections, Owner
from airflow_provider.kafka.wire.inspection import DescribeGroups, ListGroups
from airflow_provider.kafka.wire.messages import (
    FindCoordinatorResponse,
    GroupDescription,
    JoinRequest,
    JoinResponse,
    ListGroupsResponse,
    NodeId,
    SyncRequest,
    SyncResponse,
)
from airflow_provider.kafka.wire.requests import FindCoordinator, Heartbeat, LeaveGroup
from airflow_provider.kafka.wire.rounds import JoinGroup, SyncGroup
from airflow_provider.protocol.model import GenerationId, MemberId, WorkerId

# Kafka's own client gives the coordinator so much longer than the rebalance timeout (AbstractCoordinator).
_JOIN_LAPSE_MS: Final = 5_000
# Long enough for the rebalance that follows immediately when something was revoked.
_IDLE_MS: Final = 5_000


class GroupTransport:
    """Sends group requests. Whatever the broker says comes back as a value; no answer raises :class:`TransportError`.

    Retries nothing: when to try again is the member's decision. Belongs to the event loop in which it is used first.

    :param settings: how to reach the cluster
    :raises SettingsError: a certificate or key cannot be read
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.principal = settings.principal
        self._connections = Connections(settings)
        self._request_timeout_ms = settings.request_timeout_ms

    async def find_coordinator(self, group_id: str) -> FindCoordinatorResponse:
        """Ask any broker which one coordinates the group."""
        found = FindCoordinator.read(await self._connections.ask_any(FindCoordinator(group_id)))
        if found.error is KafkaErrorCode.NONE:
            self._connections.learn(found.node, Address(found.host, found.port))
        return found

    async def join(self, coordinator: NodeId, request: JoinRequest) -> JoinResponse:
        """Join or rejoin; returns when the coordinator has all members, which may take the rebalance timeout."""
        timeout_ms = max(self._request_timeout_ms, request.rebalance_timeout_ms + _JOIN_LAPSE_MS)
        response = await self._connections.ask_alone(
            coordinator, _owner(request), JoinGroup(request), timeout_ms=timeout_ms, idle_ms=_IDLE_MS
        )
        return JoinGroup.read(response)

    async def sync(self, coordinator: NodeId, request: SyncRequest) -> SyncResponse:
        """Get the assignment; returns when the leader has handed it in."""
        response = await self._connections.ask_alone(
            coordinator, _owner(request), SyncGroup(request), timeout_ms=self._request_timeout_ms, idle_ms=_IDLE_MS
        )
        return SyncGroup.read(response)

    async def turn(self) -> None:
        """To be waited for before what a thousand may be about to do together: a heartbeat, which has not been sent yet
        while it waits, or the beginning of a membership.
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
        """Tell the coordinator that a member lives; REBALANCE_IN_PROGRESS tells the member to join again.

        :param timeout_s: how long the answer may take, if that is less than for other requests
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
        """Take a member out of its group for good; of a static one the instance id is enough.

        :param reason: goes to the broker, which logs it (KIP-800)
        """
        await self.turn()
        request = LeaveGroup(group_id, member_id, worker, reason)
        return LeaveGroup.read(await self._connections.ask(coordinator, request))

    async def release(self, member: WorkerId | MemberId) -> None:
        """Close what is kept open for this member alone; it would be closed by itself after some seconds."""
        self._connections.release(member)

    async def describe(self, group_ids: Iterable[str]) -> tuple[GroupDescription, ...]:
        """The groups as their coordinators see them, in the order asked for."""
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
        """All groups of the cluster; the error is that of the first broker that had one."""
        answers = [
            ListGroups.read(await self._connections.ask(node, ListGroups())) for node in await self._connections.nodes()
        ]
        error = next((answer.error for answer in answers if answer.error), KafkaErrorCode.NONE)
        groups = sorted((group for answer in answers for group in answer.groups), key=lambda group: group.group_id)
        return ListGroupsResponse(error=error, groups=tuple(groups))

    async def aclose(self) -> None:
        """Close all connections; requests under way fail."""
        await self._connections.close()

    async def __aenter__(self) -> GroupTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _owner(request: JoinRequest | SyncRequest) -> Owner | None:
    """Whose connection it is; None for a member that has no name yet."""
    name = request.group_instance_id or request.member_id
    return Owner(name, request.group_id) if name else None
