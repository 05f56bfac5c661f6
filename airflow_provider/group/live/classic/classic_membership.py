"""Memberships in Kafka's classic group protocol, with Connect's embedded protocol in it (KIP-415)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from airflow_provider.assignment.policy import Policy
from airflow_provider.group.classic.member.events import Resumed, Started
from airflow_provider.group.classic.member.saved import resume, taken_over
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.live.shared import shared_transport
from airflow_provider.group.membership import KnowsGone, MembershipListener, Saved
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.values.saved import CLASSIC, check_group_protocol

LookBefore = Callable[[KafkaSettings, str, GroupTopics], Awaitable[None]]
"""Called with the name of the group, and with its topics, which have been read to their ends."""


async def all_may_join(_kafka: KafkaSettings, _group_id: str, _topics: GroupTopics) -> None:
    """A :data:`LookBefore` that does nothing."""


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """The classic protocol, as a worker has configured it (:class:`~airflow_provider.group.membership.GroupProtocol`).

    :param policy: how an imbalance is resolved while this worker leads
    :param look_before: called before any worker joins; raises TopicError if none may
    """

    member: MemberSettings
    policy: Policy
    look_before: LookBefore = all_may_join

    @asynccontextmanager
    async def memberships(
        self, kafka: KafkaSettings, topics: GroupTopics, is_gone: KnowsGone | None
    ) -> AsyncIterator[ClassicMemberships]:
        await self.look_before(kafka, self.member.group_id, topics)
        async with shared_transport(kafka) as transport:
            # Members that waited for their group's topics together would all join at once, so each waits for its turn.
            await transport.turn()
            yield ClassicMemberships(self.member, transport, topics, policy=self.policy, is_gone=is_gone)


class ClassicMemberships:
    """Makes classic memberships (:class:`~airflow_provider.group.membership.Memberships`).

    :param topics: the group's, read to their ends
    :param policy: how an imbalance is resolved while this worker leads
    :param is_gone: which workers have ended, so that a round need not wait for them; None: this process can't tell
    """

    def __init__(
        self,
        settings: MemberSettings,
        transport: GroupTransport,
        topics: GroupTopics,
        *,
        policy: Policy,
        is_gone: KnowsGone | None = None,
    ) -> None:
        self._settings: Final = settings
        self._transport: Final = transport
        self._topics: Final = topics
        self._policy: Final = policy
        self._is_gone: Final = is_gone

    def make(self, listener: MembershipListener, saved: Saved | None) -> GroupMember:
        state = MemberState(settings=self._settings)
        if saved is not None:
            check_group_protocol(saved, CLASSIC)
            state = resume(saved, self._settings, now_ms=now_ms(), wall_ms=wall_ms())
        return GroupMember(
            state,
            self._transport,
            self._topics,
            listener,
            policy=self._policy,
            is_gone=self._is_gone,
            opening=Started if saved is None else Resumed,
        )

    def taken_over(self, saved: Saved) -> Saved:
        return taken_over(saved)
