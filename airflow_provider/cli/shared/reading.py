"""Reads a group once, for a command that shows it, and shows the progress if this takes long."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from airflow_provider.cli.shared.terminal import complain
from airflow_provider.group.live.shared import reach
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.topic_writer import GroupTopics

_PATIENCE_S: Final = 2.0


@asynccontextmanager
async def group_read(settings: KafkaSettings, group: str) -> AsyncIterator[GroupTopics]:
    """A group's topics, read to their present ends.

    :raises TransportError: if no broker answers, or it refuses our credentials
    :raises NoTopicError: if there is no such group
    :raises TopicError: if its topics can't be read
    """
    async with group_opened(settings, group) as topics:
        with without_collector():
            await read_on(topics)
            yield topics


@asynccontextmanager
async def group_opened(settings: KafkaSettings, group: str) -> AsyncIterator[GroupTopics]:
    """As :func:`group_read`, but nothing may have been read yet. Creates no topics.

    :raises TransportError: if no broker answers, or it refuses our credentials
    """
    await reach(settings)
    topics = GroupTopics(settings, group)
    topics.attach()
    try:
        yield topics
    finally:
        await topics.aclose()


async def read_on(
    topics: GroupTopics, tell: Callable[[], None] | None = None, *, timeout_s: float | None = None
) -> None:
    """Read to the ends of the topics.

    :param tell: called every 2 seconds while that takes; by default it prints to standard error what is still being
        read
    :param timeout_s: the longest time; by default as long as there is any progress
    :raises TopicError: see :meth:`GroupTopics.catch_up`
    """
    tell = tell or (lambda: complain(f"group {topics.group}: {reading_in_words(topics)}"))
    reading = asyncio.ensure_future(topics.catch_up(timeout_s=timeout_s))
    try:
        while not (await asyncio.wait({reading}, timeout=_PATIENCE_S))[0]:
            tell()
        await reading
    finally:
        reading.cancel()


def reading_in_words(topics: GroupTopics) -> str:
    """What is still being read."""
    unread = (f"{topic} ({read:,} of {end:,} records)" for topic, (read, end) in topics.unread.items())
    return f"still reading {', '.join(unread) or 'its topics'}"


@contextmanager
def without_collector() -> Iterator[None]:
    """Turn the garbage collector off: a single look creates a hundred thousand objects and keeps them, and searching
    them for cycles takes a quarter of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
