"""Keeps the link from a running or deferred task to the leader of its group up to date.

A triggerer holds a thousand such tasks, and Airflow answers its requests one by one. So a link is stored only when it
changes, and not many at the same time.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from airflow_provider.integration.airflow_api.task_instance import push_xcom
from airflow_provider.integration.links import SparkGroupLink, group_link

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

    from airflow_provider.state.views.group_view import GroupView

log = logging.getLogger(__name__)

_LOOK_S: Final = 3.0
_APART_S: Final = 0.1
"""Seconds between storing two links for tasks of one loop."""

_GIVE_UP_S: Final = 1.0

_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class FollowedLink:
    """A task's link to its group.

    :ivar shown: where the link leads
    :ivar led_to: where it led when the group last had a leader
    """

    def __init__(self, shown: str, push: Callable[[str], Awaitable[object]]) -> None:
        self.shown = self.led_to = shown
        self._push = push
        self._complained = False

    async def store(self, link: str) -> None:
        """Store a new link. If that fails, it still leads where it did."""
        try:
            async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                await self._push(link)
                await asyncio.sleep(_APART_S)
            self.shown, self.led_to = link, link or self.led_to
        except Exception as failed:  # noqa: BLE001  whatever Airflow's client raises: a link is not worth a failure
            if not self._complained:
                log.warning("The link to the group can't be stored: %s", str(failed) or type(failed).__name__)
            self._complained = True


class _Followed:
    """The links to one group that a loop keeps up to date, all of them together."""

    def __init__(self, group: GroupView) -> None:
        self._group = group
        self._links: dict[FollowedLink, contextvars.Context] = {}
        self._storing: tuple[FollowedLink, asyncio.Task[None]] | None = None
        self._following: asyncio.Task[None] | None = None

    def add(self, link: FollowedLink) -> None:
        """Keep a link up to date. Messages about it go to the caller's own log."""
        self._links[link] = contextvars.copy_context()
        if self._following is None:
            self._following = contextvars.Context().run(asyncio.ensure_future, self._follow())

    async def remove(self, link: FollowedLink) -> None:
        del self._links[link]
        if not self._links and self._following is not None:
            self._following.cancel()
            del _FOLLOWED[self._group]
        if self._storing is not None and self._storing[0] is link:
            self._storing[1].cancel()
            # Airflow never answers while the triggerer shuts down.
            await asyncio.wait([self._storing[1]], timeout=_GIVE_UP_S)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for link, context in list(self._links.items()):
                leads_to = group_link(self._group.status)
                if link in self._links and link.shown != leads_to:
                    storing = context.run(asyncio.ensure_future, link.store(leads_to))
                    self._storing = link, storing
                    await asyncio.wait([storing])


_FOLLOWED: WeakKeyDictionary[object, _Followed] = WeakKeyDictionary()


def link_of_trigger(trigger: BaseTrigger, shown: str) -> FollowedLink:
    """The link of the task that waits in a trigger.

    :param shown: where it leads now
    """

    async def push(link: str) -> None:
        if trigger.task_instance is not None:
            await push_xcom(trigger.task_instance, SparkGroupLink().xcom_key, link)

    return FollowedLink(shown, push)


def following_leader(group: GroupView, link: FollowedLink) -> AbstractAsyncContextManager[None]:
    """Keep a link up to date while the block runs. A link that can't be stored is tried again."""
    return _Following(group, link)


class _Following:
    """A class instead of a generator, to save memory: there may be a thousand."""

    __slots__ = ("_followed", "_group", "_link")

    def __init__(self, group: GroupView, link: FollowedLink) -> None:
        self._group = group
        self._link = link

    async def __aenter__(self) -> None:
        followed = _FOLLOWED.get(self._group)
        if followed is None:
            followed = _FOLLOWED[self._group] = _Followed(self._group)
        self._followed = followed
        followed.add(self._link)

    async def __aexit__(self, *_: object) -> None:
        await self._followed.remove(self._link)
