"""Whether a group has no members. Only its coordinator knows: workers that were killed can't write it to the topics."""

from __future__ import annotations

from airflow_provider.cli import declarative_groups
from airflow_provider.group.shared import shared_transport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.protocol.error_codes import KafkaErrorCode


async def is_deserted(group: str, settings: KafkaSettings) -> bool:
    """:raises TransportError: if no broker answers"""
    async with shared_transport(settings) as transport:
        (description,) = await transport.describe([group])
    if description.members or description.error not in (KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND):
        return False
    declared = await declarative_groups.read(settings, group)
    return declared is None or not declarative_groups.description_of(declared).members
