"""Checks whether a group has declarative workers, before a classic worker joins.

Kafka's own coordinator knows nothing of them, and would give all tasks of the group to classic workers, too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from airflow_provider.group.declarative.server.shard_records.reading import read_groups
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import RightsError, TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.values.in_short import in_short

log: Final = logging.getLogger(__name__)

_WITHIN_S: Final = 30.0


class DeclarativeWorkersError(TopicError):
    """The group has workers in the declarative protocol, and no bridge."""

    def __init__(self, group_id: str, workers: tuple[str, ...]) -> None:
        super().__init__(
            f"group {group_id!r} has workers in the declarative protocol: {in_short(workers)};"
            " they would run the same tasks. Stop them first, or join with group_protocol 'connect'. A worker that was"
            " killed is removed when its session has ended, if a coordinator runs (cospark coordinator)"
        )


async def refuse_beside_declarative_workers(settings: KafkaSettings, group_id: str, topics: GroupTopics) -> None:
    """Read the coordinators' records, and refuse if the group has declarative workers. Only done if the last record of
    the group is declarative: a group with a bridge has a classic leader.

    :param topics: the group's topics, read to their ends
    :raises DeclarativeWorkersError: the group has declarative workers
    :raises TopicError: the records can't be read
    """
    record = topics.status.group
    if not isinstance(record, DeclarativeRecord):
        return
    try:
        groups = await asyncio.to_thread(read_groups, settings, timeout_s=_WITHIN_S, only=group_id)
    except RightsError as lacking:
        log.warning(
            "can't check whether group %r has workers in the declarative protocol: %s. If it has, tasks run twice",
            group_id,
            lacking,
        )
        return
    group = groups.get(group_id)
    if group is not None and group.members:
        raise DeclarativeWorkersError(
            group_id, tuple(sorted(said.instance_id or member for member, said in group.members.items()))
        )
