"""Ends what runs on servers and nobody of its group has, on behalf of people."""

from __future__ import annotations

from typing import Final

from airflow_provider.hands.servers import TokenOf
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.ledger.orphans import Orphan
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.news import QueryNews
from airflow_provider.spark_connect.server import ConnectSettings
from airflow_provider.topics.group_topics import GroupTopics

_ANSWER_S: Final = 30.0
_USER_AGENT: Final = "cospark/orphans"


async def end(orphan: Orphan, topics: GroupTopics, token_of: TokenOf) -> str:
    """Have its server end it, and say so in the group.

    :return: why that is not certain; empty: it has ended
    :raises TopicError: if it can't be written
    """
    from airflow_provider.spark_connect.watching import QueryWatch  # gRPC stands behind it

    try:
        handle = QueryHandle.from_json(orphan.status.handle)
        watch = QueryWatch(ConnectSettings(server=handle.server, token=await token_of(handle)), _USER_AGENT, _hear)
        try:
            await watch.stop(handle, timeout_s=_ANSWER_S)
        finally:
            await watch.close()
    except Exception as failed:  # noqa: BLE001 - whatever the client raises, it is no answer
        return str(failed) or type(failed).__name__
    await forget(orphan, topics)
    return ""


async def forget(orphan: Orphan, topics: GroupTopics) -> None:
    """Say in the group that nothing of it runs any more: somebody is sure of that.

    :raises TopicError: if it can't be written
    """
    await topics.publish_task(orphan.over(wall_ms()))
    if orphan.status.task.job not in topics.jobs.jobs:
        await topics.forget_task(orphan.status.task)


def _hear(_news: QueryNews) -> None:
    """Nothing is watched."""
