"""Follows the topics of groups, to tell shards which tasks are configured, and checks groups for classic workers."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Final

from airflow_provider.group.declarative.server.migration.classic_workers import Seen, look_at
from airflow_provider.kafka.clock import now_ms
from airflow_provider.kafka.error_backoff import Resting
from airflow_provider.kafka.event_loops.off_loop import REST, SETTLE_S, off_loop
from airflow_provider.kafka.event_loops.own_loop import OwnLoop
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.kafka.trouble import Trouble
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Tasks

log: Final = logging.getLogger(__name__)

_FIRST_REST_S: Final = 1.0

Put = Callable[[str, Tasks], None]
"""Takes a group's tasks; must not block."""


class JobsFollower:
    """Follows the topics of groups, on an event loop of its own, which starts with the first group.

    :param settings: the connection
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._loop = OwnLoop("cospark-shard-jobs")
        self._followers: dict[tuple[int, str], _Follower] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, shard: int, groups: frozenset[str], put: Put) -> None:
        """Follow these groups of the shard, and no others of it. Any thread may call it.

        :param put: called with a group's configured tasks as they are now, and after each change; must not block
        """
        if groups or self._loop.has_begun:
            self._loop.call(lambda: self._set(shard, groups, put))

    def look(self, group: str, put: Callable[[Seen], None]) -> None:
        """Check once whether a group has classic workers. Any thread may call it.

        :param put: called with the result; must not block
        """
        self._loop.call(lambda: self._look(group, put))

    def close(self) -> None:
        """Stop following all groups. Returns when that is done."""
        self._loop.close(self._end)

    def _look(self, group: str, put: Callable[[Seen], None]) -> None:
        async def look() -> None:
            try:
                seen = await look_at(self._settings, group)
            except Exception as fault:
                message = f"can't check whether group {group!r} has workers in the classic protocol: {fault!r}"
                log.exception("%s", message)
                seen = Seen(group, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            put(seen)

        task = asyncio.ensure_future(look())
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def _set(self, shard: int, groups: frozenset[str], put: Put) -> None:
        for at in [at for at in self._followers if at[0] == shard and at[1] not in groups]:
            self._cancel(self._followers.pop(at).task)
        for group in groups:
            follower = self._followers.get((shard, group))
            if follower is None:
                self._followers[shard, group] = _Follower(self._settings, group, put)
            else:
                follower.tell(put)

    def _cancel(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.cancel()

    async def _end(self) -> None:
        for follower in self._followers.values():
            self._cancel(follower.task)
        self._followers.clear()
        for task in self._looking:
            self._cancel(task)
        await asyncio.gather(*self._ending, return_exceptions=True)


class _Follower:
    """Follows the topics of one group."""

    def __init__(self, settings: KafkaSettings, group: str, put: Put) -> None:
        self._settings = settings
        self._group = group
        self._put = put
        self._tasks: Tasks | None = None
        self.task = asyncio.ensure_future(self._run())

    def tell(self, put: Put) -> None:
        """Call another function from now on, and immediately with the present tasks."""
        self._put = put
        if self._tasks is not None:
            put(self._group, self._tasks)

    async def _run(self) -> None:
        resting, trouble = Resting(_FIRST_REST_S, now_ms), Trouble()
        while True:
            resting.begin()
            topics = FollowedTopics(self._settings, self._group)
            try:
                topics.attach()
                await topics.catch_up()
                resting.is_well()
                after_s = trouble.over()
                if after_s is not None:
                    log.info("the jobs of group %r can be read again, after %.1f s", self._group, after_s)
                await self._watch(topics)
            except NoTopicError as wrong:  # until its first worker has created them
                rest_s = resting.fault()
                log.debug("group %r has no jobs yet: %s", self._group, wrong)
            except TopicError as wrong:
                rest_s = resting.fault()
                if trouble.is_news(str(wrong)):
                    log.warning("the jobs of group %r can't be read: %s; trying again", self._group, wrong)
            except Exception as fault:
                rest_s = resting.fault()
                if trouble.is_news(repr(fault)):
                    log.exception("the jobs of group %r can't be read; trying again", self._group)
            finally:
                await topics.aclose()
            await asyncio.sleep(rest_s)

    async def _watch(self, topics: FollowedTopics) -> None:
        """Tell the configured tasks after each change.

        :raises TopicError: a topic is no longer read
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        stop = topics.subscribe(changed.set)
        try:
            while topics.fault is None:
                changed.clear()
                began = loop.time()
                jobs, statuses = topics.jobs, topics.status.tasks
                tasks = await off_loop(functools.partial(configured, jobs, statuses), tasks=len(statuses))
                if tasks != self._tasks:
                    self._tasks = tasks
                    self._put(self._group, tasks)
                took_s = loop.time() - began
                await asyncio.sleep(SETTLE_S + REST * took_s)
                await changed.wait()
            raise topics.fault
        finally:
            stop()
