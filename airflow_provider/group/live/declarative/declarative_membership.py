"""Memberships in declarative groups (KIP-848, for Kafka Connect), whose coordinators are reached over topics."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from airflow_provider.group.declarative.assignors.client_assignor import ClientSideAssignor
from airflow_provider.group.declarative.member.events import Resumed, Started
from airflow_provider.group.declarative.member.saved import resume, taken_over
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState
from airflow_provider.group.declarative.requests.request_channel import RequestChannel
from airflow_provider.group.live.declarative.declarative_member import DeclarativeMember
from airflow_provider.group.live.declarative.worker_assignors import WorkerAssignors
from airflow_provider.group.live.shared import shared_channel
from airflow_provider.group.membership import KnowsGone, MembershipListener, Saved
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import WorkerPhase
from airflow_provider.values.model import MemberId
from airflow_provider.values.saved import CONNECT, check_group_protocol

Coordinating = Callable[[KafkaSettings], AbstractAsyncContextManager[object]]
"""What a process does for the coordination of groups while it holds memberships."""


def leaves_it_to_others(_kafka: KafkaSettings) -> AbstractAsyncContextManager[object]:
    """A :data:`Coordinating` that does nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class DeclarativeProtocol:
    """The protocol of declarative groups, as a worker has configured it
    (:class:`~airflow_provider.group.membership.GroupProtocol`).

    :param assignors: those that it can run, the preferred one first; none if it wants one of the coordinator's
    :param slots: how many tasks it runs at the same time; 0: not known
    :param returns_ms: in how many milliseconds at most the worker returns if its process ends; None: not known here
    :param coordinating: entered before the cluster's coordinators are looked for
    """

    member: DeclarativeSettings
    assignors: tuple[ClientSideAssignor, ...]
    slots: int
    returns_ms: int | None = None
    coordinating: Coordinating = leaves_it_to_others

    @asynccontextmanager
    async def memberships(
        self,
        kafka: KafkaSettings,
        topics: GroupTopics,
        is_gone: KnowsGone | None,
    ) -> AsyncIterator[DeclarativeMemberships]:
        async with self.coordinating(kafka), shared_channel(kafka) as channel:
            yield DeclarativeMemberships(self, channel, topics, is_gone)


class DeclarativeMemberships:
    """Makes declarative memberships (:class:`~airflow_provider.group.membership.Memberships`).

    :param topics: the group's, read to their ends
    :param is_gone: which workers' processes have certainly ended; None: this process can't tell
    """

    def __init__(
        self,
        protocol: DeclarativeProtocol,
        channel: RequestChannel,
        topics: GroupTopics,
        is_gone: KnowsGone | None = None,
    ) -> None:
        self._protocol: Final = protocol
        self._channel: Final = channel
        self._topics: Final = topics
        self._is_gone: Final = is_gone

    def make(self, listener: MembershipListener, saved: Saved | None) -> DeclarativeMember:
        settings = self._protocol.member
        if saved is None:
            state = MembershipState(settings=settings, member_id=self._new_id())
        else:
            check_group_protocol(saved, CONNECT)
            state = resume(saved, settings, now_ms=now_ms(), wall_ms=wall_ms())
        assignors = WorkerAssignors(
            self._protocol.assignors,
            self._topics,
            worker=settings.worker,
            member_id=state.member_id,
            url=settings.url,
            slots=self._protocol.slots,
            returns_ms=self._returns_ms(saved),
        )
        return DeclarativeMember(
            state,
            self._channel,
            self._topics,
            listener,
            assignors,
            opening=Started if saved is None else Resumed,
            former=self._former() if saved is None else None,
        )

    def taken_over(self, saved: Saved) -> Saved:
        return taken_over(saved, self._new_id())

    def _returns_ms(self, saved: Saved | None) -> int | None:
        """The saved value, if this process (a triggerer) does not know it: a change would cause another assignment."""
        known = self._protocol.returns_ms
        said = None if known is not None or saved is None else saved.get("returns_ms")
        return known if said is None else int(said)

    def _former(self) -> MemberId | None:
        """The worker's member id before, if its process has ended without leaving. A deferred one is in a triggerer."""
        last = self._topics.status.workers.get(self._protocol.member.worker)
        if last is None or self._is_gone is None or last.state in (WorkerPhase.LEFT, WorkerPhase.DEFERRED):
            return None
        return last.member_id or None if self._is_gone(last) else None

    def _new_id(self) -> MemberId:
        """A new member id. It lasts as long as the membership; the next process with the worker's name has another."""
        return MemberId(f"{self._protocol.member.worker}-{uuid.uuid4()}")
