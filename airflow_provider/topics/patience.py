"""Reads a large group to its end on a busy machine, where that takes longer than a broker may that does not answer."""

from __future__ import annotations

from airflow_provider.topics.errors import TopicTimeoutError
from airflow_provider.topics.followed import FollowedTopics


async def read_patiently(topics: FollowedTopics) -> None:
    """As long as any of it is read meanwhile.

    :raises TopicError: see :meth:`FollowedTopics.catch_up`
    """
    before: dict[str, int] = {}
    while True:
        try:
            await topics.catch_up()
        except TopicTimeoutError:
            read = {topic: at for topic, (at, _) in topics.unread.items() if at}
            if read == before:
                raise
            before = read
        else:
            return
