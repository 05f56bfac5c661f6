"""What ``cospark groups`` has to say of declarative groups: of those no broker knows anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from airflow_provider.cli.terminal import complain
from airflow_provider.coordinator.state import GroupState
from airflow_provider.kafka.errors import KafkaErrorCode
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.wire.messages import DescribedMember, GroupDescription
from airflow_provider.protocol.model import PROTOCOL_TYPE, ProtocolError, WorkerId
from airflow_provider.protocol.saved import CONNECT
from airflow_provider.reports.declarative_group import configuration_lines, phase, tables, to_json
from airflow_provider.shards.reading import read_groups
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.followed import DEFAULT_TIMEOUT_S


async def read(settings: KafkaSettings, group: str) -> GroupState | None:
    """The group as its records say; None if it has none."""
    return (await _read(settings, group)).get(group)


async def phases(settings: KafkaSettings) -> Mapping[str, str]:
    """How far each declarative group is; those that nobody is in are left out."""
    groups = await _read(settings, None)
    return {group_id: phase(group) for group_id, group in groups.items() if group.members}


async def _read(settings: KafkaSettings, only: str | None) -> Mapping[str, GroupState]:
    """Who may not read the records sees what the other topics say."""
    try:
        return await asyncio.to_thread(read_groups, settings, timeout_s=DEFAULT_TIMEOUT_S, only=only)
    except (TopicError, ProtocolError) as wrong:
        complain(f"cospark groups: of declarative groups, not all is known: {wrong}")
        return {}


def description_of(group: GroupState) -> GroupDescription:
    """As the coordinator of a classic group would describe it."""
    return GroupDescription(
        error=KafkaErrorCode.NONE,
        group_id=group.group_id,
        state=phase(group),
        protocol_type=PROTOCOL_TYPE,
        protocol=CONNECT,
        members=tuple(
            DescribedMember(
                member_id=member_id,
                group_instance_id=WorkerId(member.instance_id) if member.instance_id else None,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=b"",
                assignment=b"",
            )
            for member_id, member in group.members.items()
        ),
    )


def about(group: GroupState | None) -> dict[str, Any]:
    """What is known of such a group beyond what is known of all."""
    return {} if group is None else {"declarative": to_json(group)}


def lines(group: GroupState | None) -> list[str]:
    """The same, for people."""
    return [] if group is None else [*tables(group).split("\n"), *configuration_lines(group)]
