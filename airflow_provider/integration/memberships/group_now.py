"""What a group's topics say, with its coordinator's word on whether it has members: workers that were killed can't
write that they are gone, and those that join write nothing before their first round.

All classic groups of a cluster that are watched on one event loop are asked for together, however many watch each of
them. Declarative ones are not, and no answer says nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.presence import present
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.memo import Memo

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.errors import TopicError
    from airflow_provider.kafka.topics.followed import FollowedTopics
    from airflow_provider.state.rounds.group_record import GroupRecord
    from airflow_provider.state.views.jobs_view import JobsSnapshot
    from airflow_provider.state.views.status_view import StatusSnapshot

log = logging.getLogger(__name__)

_ASK_AGAIN_S: Final = 5.0


class _Said(NamedTuple):
    """What the topics say about members.

    :param round: the last one
    :param anybody: whether a member of it is there
    """

    round: GroupRecord | None
    anybody: bool

    @classmethod
    def by(cls, status: StatusSnapshot) -> _Said:
        return cls(status.group, bool(present(status)))

    def is_said_by(self, status: StatusSnapshot) -> bool:
        return self.round is status.group and self.anybody == bool(present(status))


@dataclass(frozen=True, slots=True, eq=False)
class _Listening:
    """A listener, with the context in which it was added, as in ``kafka/event_loops/changes.py``."""

    listener: Callable[[], None]
    context: contextvars.Context


class GroupNow:
    """A group that is watched on one loop. Other threads may look at it.

    :ivar users: how many watch it
    :ivar asked: set when the coordinator was asked once
    """

    def __init__(self, topics: FollowedTopics) -> None:
        self._topics = topics
        self._listeners: list[_Listening] = []
        self._denied: _Said | None = None
        self._as_told: Memo[StatusSnapshot, StatusSnapshot] = Memo()
        self.users = 0
        self.asked = asyncio.Event()

    @property
    def jobs(self) -> JobsSnapshot:
        return self._topics.jobs

    @property
    def status(self) -> StatusSnapshot:
        status, denied = self._topics.status, self._denied
        if denied is None or not denied.is_said_by(status):
            return status
        return self._as_told.get(status, status.without_members if denied.anybody else status.with_members)

    @property
    def problem(self) -> TopicError | None:
        return self._topics.problem

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """As :meth:`FollowedTopics.subscribe`; ``listener`` is also called when the coordinator says something new."""
        unsubscribe = self._topics.subscribe(listener)
        listening = _Listening(listener, contextvars.copy_context())
        self._listeners.append(listening)

        def stop() -> None:
            self._listeners.remove(listening)
            unsubscribe()

        return stop

    @property
    def said(self) -> _Said | None:
        """What to ask its broker about; None: no broker coordinates it."""
        status = self._topics.status
        return _Said.by(status) if status.group is None or isinstance(status.group, ClassicRecord) else None

    def hear(self, asked: _Said, has_members: bool | None) -> None:
        """:param asked: what the topics said then. What they say later is newer than the answer
        :param has_members: None: there is no answer
        """
        before = self.status
        self._denied = None if has_members in (None, asked.anybody) else asked
        if self.status is not before:
            for listening in self._listeners:
                # One call for each, so that an exception affects neither the others nor who asks for all.
                asyncio.get_running_loop().call_soon(self._tell, listening, context=listening.context)

    def _tell(self, listening: _Listening) -> None:
        if listening in self._listeners:  # otherwise it was removed in this turn of the loop
            listening.listener()


class ClusterNow:
    """Asks one cluster about the groups that are watched on one loop (:meth:`of`)."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._groups: dict[str, GroupNow] = {}
        self._new = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, settings: KafkaSettings) -> ClusterNow:
        """The one of the running loop."""
        clusters = _clusters()
        if settings not in clusters:
            clusters[settings] = cls(settings)
        return clusters[settings]

    def watch(self, group: str, topics: FollowedTopics) -> GroupNow:
        """The group, until :meth:`forget`.

        :param topics: shared by all who watch the group on this loop
        """
        now = self._groups.get(group)
        if now is None:
            now = self._groups[group] = GroupNow(topics)
            self._new.set()
        now.users += 1
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask_again_and_again())
        return now

    def forget(self, group: str) -> None:
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
        asked = {name: said for name, now in groups.items() if (said := now.said) is not None}
        told: Mapping[str, bool] = {}
        try:
            told = await deserted.have_classic_members(asked, self._settings) if asked else {}
        except Exception:  # whatever it is: who watches can do without
            log.debug("The coordinators do not say which groups have members", exc_info=True)
        for name, now in groups.items():
            if self._groups.get(name) is not now:  # its topics may be closed by now
                continue
            if name in asked:
                now.hear(asked[name], told.get(name))
            now.asked.set()


_CLUSTERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[KafkaSettings, ClusterNow]] = WeakKeyDictionary()


def _clusters() -> dict[KafkaSettings, ClusterNow]:
    return _CLUSTERS.setdefault(asyncio.get_running_loop(), {})


def group_now(settings: KafkaSettings, group: str, topics: FollowedTopics) -> AbstractAsyncContextManager[GroupNow]:
    """The group as it is while the block runs. When that begins, the coordinator was asked, if it answers.

    :param topics: read to their ends, and shared by all who watch the group on this loop
    """
    return _Use(settings, group, topics)


class _Use:
    """A class instead of a generator, to save memory: there may be a thousand."""

    __slots__ = ("_cluster", "_group", "_settings", "_topics")

    def __init__(self, settings: KafkaSettings, group: str, topics: FollowedTopics) -> None:
        self._settings = settings
        self._group = group
        self._topics = topics

    async def __aenter__(self) -> GroupNow:
        self._cluster = ClusterNow.of(self._settings)
        now = self._cluster.watch(self._group, self._topics)
        try:
            with contextlib.suppress(DeadlineError):
                await wait_at_most(_ASK_AGAIN_S, now.asked.wait())
        except BaseException:
            self._cluster.forget(self._group)
            raise
        return now

    async def __aexit__(self, *_: object) -> None:
        self._cluster.forget(self._group)
