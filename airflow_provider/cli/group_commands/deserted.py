"""Whether a group has no members, for commands that only look: what can't be read is reported, and counts as empty."""

from __future__ import annotations

from airflow_provider.cli.shared.terminal import complain
from airflow_provider.integration.memberships.deserted import has_members
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.views.status_view import StatusSnapshot


async def seems_deserted(group: str, settings: KafkaSettings) -> bool:
    """:raises TransportError: if no broker answers"""
    try:
        return await has_members(group, settings) is False
    except TopicError as wrong:
        complain(f"cospark groups: declarative groups may be missing or incomplete: {wrong}")
        return True


async def status_now(topics: GroupTopics, settings: KafkaSettings) -> StatusSnapshot:
    """What the topics and the coordinator say together.

    :raises TransportError: if no broker answers
    """
    deserted = await seems_deserted(topics.group, settings)
    return topics.status.without_members() if deserted else topics.status
