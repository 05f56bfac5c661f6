"""Whether a group has members. Only its coordinator knows: workers that were killed can't write it to the topics, and
those that are about to join have not yet written it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from airflow_provider.group.declarative.server.shard_records.reading import read_groups
from airflow_provider.group.live.shared import shared_transport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.state.views.group_view import GroupView
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ProtocolError


async def have_classic_members(groups: Collection[str], settings: KafkaSettings) -> Mapping[str, bool]:
    """By group, whether it has members as far as brokers know: they know nothing of declarative groups. A group is
    missing if its broker can't tell at present.

    :raises TransportError: if no broker answers
    """
    async with shared_transport(settings) as transport:
        descriptions = await transport.describe(groups)
    known = (KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND)
    return {each.group_id: bool(each.members) for each in descriptions if each.error in known}


async def has_members(group: str, settings: KafkaSettings) -> bool | None:
    """None: nobody can tell at present.

    :raises TransportError: if no broker answers
    :raises TopicError: if the records of declarative groups can't be read
    """
    classic = (await have_classic_members([group], settings)).get(group)
    if classic is not False:
        return classic
    try:
        declared = await asyncio.to_thread(read_groups, settings, timeout_s=DEFAULT_TIMEOUT_S, only=group)
    except ProtocolError as damaged:
        raise TopicError(f"a record of a declarative group can't be read: {damaged}") from damaged
    return group in declared and bool(declared[group].members)


async def status_of_those_left(group: str, seen: GroupView, settings: KafkaSettings) -> StatusSnapshot:
    """What the topics say, with the coordinator's word on who is left.

    :raises TransportError, TopicError: as :func:`has_members`
    """
    there = await has_members(group, settings)
    return seen.status if there is None else seen.status.with_members() if there else seen.status.without_members()
