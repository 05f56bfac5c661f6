"""Reads a large group to its end on a busy machine, which may take longer than the time limit of :meth:`catch_up`."""

from __future__ import annotations

from airflow_provider.topics.errors import TopicTimeoutError
from airflow_provider.topics.followed import FollowedTopics


async def read_patiently(topics: FollowedTopics) -> None:
    """Read to the ends, as long as there is any progress.

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
