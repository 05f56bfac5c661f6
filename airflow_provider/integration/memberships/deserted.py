"""Whether a group has no members. Only its coordinator knows: workers that were killed can't write it to the topics."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from airflow_provider.group.declarative.server.shard_records.reading import read_groups
from airflow_provider.group.live.shared import shared_transport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.state.views.group_view import GroupView
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ProtocolError


async def without_classic_members(groups: Collection[str], settings: KafkaSettings) -> frozenset[str]:
    """Those of these groups that have no members, as far as brokers know: they know nothing of declarative groups.

    :raises TransportError: if no broker answers
    """
    async with shared_transport(settings) as transport:
        descriptions = await transport.describe(groups)
    known = (KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND)
    return frozenset(each.group_id for each in descriptions if not each.members and each.error in known)


async def is_deserted(group: str, settings: KafkaSettings) -> bool:
    """:raises TransportError: if no broker answers
    :raises TopicError: if the records of declarative groups can't be read
    """
    if group not in await without_classic_members([group], settings):
        return False
    try:
        declared = await asyncio.to_thread(read_groups, settings, timeout_s=DEFAULT_TIMEOUT_S, only=group)
    except ProtocolError as damaged:
        raise TopicError(f"a record of a declarative group can't be read: {damaged}") from damaged
    return group not in declared or not declared[group].members


async def status_of_those_left(group: str, seen: GroupView, settings: KafkaSettings) -> StatusSnapshot:
    """What the topics say, with the coordinator's word on who is left.

    :raises TransportError, TopicError: as :func:`is_deserted`
    """
    deserted = await is_deserted(group, settings)
    return seen.status.without_members() if deserted else seen.status
