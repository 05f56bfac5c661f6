"""Reads large topics to their ends. On a busy machine, this may take longer than the timeout of :meth:`catch_up`."""

from __future__ import annotations

from airflow_provider.topics.errors import TopicTimeoutError
from airflow_provider.topics.followed import FollowedTopics


async def read_patiently(topics: FollowedTopics) -> None:
    """Read to the ends of the topics, as long as there is progress.

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
