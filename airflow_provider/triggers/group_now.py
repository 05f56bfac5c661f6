"""What a group's topics say, with its coordinator's word on whether it has members: workers that were killed can't
write that they are gone.

A triggerer asks for all classic groups of a cluster together, as often as the page. Only those are asked for whose
topics name workers that have not left. No answer says nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.presence import present
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.memo import Memo

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.errors import TopicError
    from airflow_provider.kafka.topics.group_topics import GroupTopics
    from airflow_provider.state.rounds.record import GroupRecord
    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot

log = logging.getLogger(__name__)

_ASK_AGAIN_S: Final = 5.0


class GroupNow:
    """A group that triggers of one loop watch.

    :ivar users: how many do
    :ivar asked: set when the coordinator was asked once
    """

    def __init__(self, topics: GroupTopics) -> None:
        self._topics = topics
        self._listeners: list[Callable[[], None]] = []
        self._deserted_since: GroupRecord | None = None
        self._emptied: Memo[StatusSnapshot, StatusSnapshot] = Memo()
        self.users = 0
        self.asked = asyncio.Event()

    @property
    def jobs(self) -> JobsSnapshot:
        return self._topics.jobs

    @property
    def status(self) -> StatusSnapshot:
        status = self._topics.status
        if status.group is None or status.group is not self._deserted_since:
            return status
        return self._emptied.get(status, status.without_members)

    @property
    def problem(self) -> TopicError | None:
        return self._topics.problem

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        unsubscribe = self._topics.subscribe(listener)
        self._listeners.append(listener)

        def stop() -> None:
            self._listeners.remove(listener)
            unsubscribe()

        return stop

    @property
    def in_doubt(self) -> GroupRecord | None:
        """The round whose members may be gone although the topics do not say so; None: the topics know."""
        status = self._topics.status
        return status.group if isinstance(status.group, ClassicRecord) and present(status) else None

    def hear(self, round_asked: GroupRecord, *, deserted: bool) -> None:
        """:param round_asked: the last one when the coordinator was asked. Members of a later one are there"""
        before, self._deserted_since = self._deserted_since, round_asked if deserted else None
        if before is not self._deserted_since:
            for listener in list(self._listeners):
                listener()


class _Cluster:
    """Asks one cluster about the groups that are watched on one loop."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._groups: dict[str, GroupNow] = {}
        self._new = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    def add(self, group: str, topics: GroupTopics) -> GroupNow:
        now = self._groups.get(group)
        if now is None:
            now = self._groups[group] = GroupNow(topics)
            self._new.set()
        now.users += 1
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask_again_and_again())
        return now

    def remove(self, group: str) -> None:
        self._groups[group].users -= 1
        if self._groups[group].users == 0:
            del self._groups[group]
        if not self._groups and self._asking is not None:
            self._asking.cancel()
            self._asking = None
            if (clusters := _clusters()).get(self._settings) is self:
                del clusters[self._settings]

    async def _ask_again_and_again(self) -> None:
        loop, again_at = asyncio.get_running_loop(), 0.0
        while True:
            self._new.clear()
            if loop.time() >= again_at:
                await self._ask(self._groups)
                again_at = loop.time() + _ASK_AGAIN_S
            else:
                await self._ask([name for name, now in self._groups.items() if not now.asked.is_set()])
            with contextlib.suppress(DeadlineError):
                await wait_at_most(again_at - loop.time(), self._new.wait())

    async def _ask(self, names: Collection[str]) -> None:
        from airflow_provider.integration.memberships import deserted

        groups = {name: self._groups[name] for name in names}
        rounds = {name: doubted for name, now in groups.items() if (doubted := now.in_doubt) is not None}
        left: Collection[str] = ()
        try:
            left = await deserted.without_classic_members(rounds, self._settings) if rounds else ()
        except Exception:  # whatever it is: sensors can do without
            log.debug("The coordinators do not say which groups have members", exc_info=True)
        for name, now in groups.items():
            if name in rounds:
                now.hear(rounds[name], deserted=name in left)
            now.asked.set()


_CLUSTERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[KafkaSettings, _Cluster]] = WeakKeyDictionary()


def _clusters() -> dict[KafkaSettings, _Cluster]:
    return _CLUSTERS.setdefault(asyncio.get_running_loop(), {})


def group_now(settings: KafkaSettings, group: str, topics: GroupTopics) -> AbstractAsyncContextManager[GroupNow]:
    """The group as it is while the block runs. When that begins, the coordinator was asked, if it answers.

    :param topics: read to their ends, and shared by all who watch the group on this loop
    """
    return _Use(settings, group, topics)


class _Use:
    """A class instead of a generator, to save memory: there may be a thousand."""

    __slots__ = ("_cluster", "_group", "_settings", "_topics")

    def __init__(self, settings: KafkaSettings, group: str, topics: GroupTopics) -> None:
        self._settings = settings
        self._group = group
        self._topics = topics

    async def __aenter__(self) -> GroupNow:
        clusters = _clusters()
        self._cluster = clusters.get(self._settings) or _Cluster(self._settings)
        clusters[self._settings] = self._cluster
        now = self._cluster.add(self._group, self._topics)
        try:
            with contextlib.suppress(DeadlineError):
                await wait_at_most(_ASK_AGAIN_S, now.asked.wait())
        except BaseException:
            self._cluster.remove(self._group)
            raise
        return now

    async def __aexit__(self, *_: object) -> None:
        self._cluster.remove(self._group)
