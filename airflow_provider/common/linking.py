"""Keeps the link from a task that runs or is deferred to whoever leads its group.

A triggerer holds a thousand of them, and Airflow answers its questions one by one: so a link is stored only when it
leads elsewhere than before, and never many at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from airflow_provider.common.links import SparkGroupLink, group_link
from airflow_provider.common.task_instance import push_xcom

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

    from airflow_provider.topics.group_topics import GroupTopics

log = logging.getLogger(__name__)

_LOOK_S: Final = 3.0
_APART_S: Final = 0.1
"""Between two links that are stored for tasks of one loop."""

_GIVE_UP_S: Final = 1.0

_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class FollowedLink:
    """:ivar shown: where the link leads"""

    def __init__(self, shown: str, push: Callable[[str], Awaitable[object]]) -> None:
        self.shown = shown
        self._push = push

    async def follow(self, topics: GroupTopics) -> None:
        """Without end. What can't be stored is tried again."""
        complained = False
        while True:
            await asyncio.sleep(_LOOK_S * random.uniform(1.0, 1.1))
            link = group_link(topics.status)
            if link == self.shown:
                continue
            try:
                async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                    await self._push(link)
                    await asyncio.sleep(_APART_S)
                self.shown = link
            except Exception as failed:  # noqa: BLE001  whatever Airflow's client raises: it is only a link
                if not complained:
                    log.warning("The link to the group can't be stored: %s", str(failed) or type(failed).__name__)
                complained = True


def link_of_trigger(trigger: BaseTrigger, shown: str) -> FollowedLink:
    """The link of the task that waits in a trigger.

    :param shown: where it leads
    """

    async def push(link: str) -> None:
        if trigger.task_instance is not None:
            await push_xcom(trigger.task_instance, SparkGroupLink().xcom_key, link)

    return FollowedLink(shown, push)


@asynccontextmanager
async def following_leader(topics: GroupTopics, link: FollowedLink) -> AsyncIterator[None]:
    """Follow as long as the block runs."""
    following = asyncio.ensure_future(link.follow(topics))
    try:
        yield
    finally:
        following.cancel()
        # Airflow never answers while the triggerer shuts down.
        await asyncio.wait([following], timeout=_GIVE_UP_S)
