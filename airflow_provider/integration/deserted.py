"""Whether a group has no members. Only its coordinator knows: workers that were killed can't write it to the topics."""

from __future__ import annotations

import asyncio

from airflow_provider.group.declarative.server.reading import read_groups
from airflow_provider.group.live.shared import shared_transport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.values.error_codes import KafkaErrorCode
from airflow_provider.values.model import ProtocolError


async def is_deserted(group: str, settings: KafkaSettings) -> bool:
    """:raises TransportError: if no broker answers
    :raises TopicError: if the records of declarative groups can't be read
    """
    async with shared_transport(settings) as transport:
        (description,) = await transport.describe([group])
    if description.members or description.error not in (KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND):
        return False
    try:
        declared = await asyncio.to_thread(read_groups, settings, timeout_s=DEFAULT_TIMEOUT_S, only=group)
    except ProtocolError as damaged:
        raise TopicError(f"a record of a declarative group can't be read: {damaged}") from damaged
    return group not in declared or not declared[group].members
