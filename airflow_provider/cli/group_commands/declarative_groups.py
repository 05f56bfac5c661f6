"""Shows declarative groups in ``cospark groups``. Brokers know nothing of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_provider.cli.shared.terminal import complain
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.report import configuration_lines, phase, tables, to_json
from airflow_provider.group.declarative.server.shard_records.reading import read_groups
from airflow_provider.kafka.group_requests.messages import DescribedMember, GroupDescription
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import PROTOCOL_TYPE, Epoch, ProtocolError, WorkerId
from airflow_provider.values.saved import CONNECT

_MOMENTS: Final = "  (members, targets and assignments are from one moment, what workers and tasks say is later)"


async def read(settings: KafkaSettings, group: str) -> GroupState | None:
    """The group, according to its records; None if it has none."""
    return (await _read(settings, group)).get(group)


async def phases(settings: KafkaSettings) -> Mapping[str, str]:
    """The phase of each declarative group that has members."""
    groups = await _read(settings, None)
    return {group_id: phase(group) for group_id, group in groups.items() if group.members}


async def _read(settings: KafkaSettings, only: str | None) -> Mapping[str, GroupState]:
    """Read the records. Without the right to, only the groups' own topics are shown."""
    try:
        return await asyncio.to_thread(read_groups, settings, timeout_s=DEFAULT_TIMEOUT_S, only=only)
    except (TopicError, ProtocolError) as wrong:
        complain(f"cospark groups: declarative groups may be missing or incomplete: {wrong}")
        return {}


def description_of(group: GroupState) -> GroupDescription:
    """The group in the form in which the coordinator of a classic group describes it."""
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


def as_of(group: GroupState | None, jobs: JobsSnapshot, status: StatusSnapshot) -> StatusSnapshot:
    """Replace the group record in the status by the targets in the coordinators' records, which are consistent.

    The record in the status topic is written later, by the member that has computed the target, so in a busy group it
    may be of an earlier target. Its details are only used if it is of the same target.
    """
    if group is None or not group.members:
        return status
    known, said_by = status.group, {**group.last_said, **group.members}
    names = {one: WorkerId(said.instance_id or one) for one, said in said_by.items()}
    if known is None or known.epoch != int(group.target.epoch):
        known = None
    record = DeclarativeRecord(
        epoch=Epoch(group.target.epoch),
        leader=WorkerId("") if known is None else known.leader,
        config_offset=jobs.offset if known is None else known.config_offset,
        members={names[one]: one for one in group.members},
        assignment={names[one]: group.target.of(one).tasks for one in group.members},
        revoked={names[one]: group.current[one].revoking for one in group.members},
        moves=(),
        delay_ms=0 if known is None else known.delay_ms,
        reason="" if known is None else known.reason,
        at_ms=0 if known is None else known.at_ms,
        waits={names.get(one, WorkerId(one)): target.tasks for one, target in group.target.delayed.items()},
        asks_at_ms=0 if known is None else known.deadline_ms,
    )
    return replace(status, group=record, owners=Memo())


def about(group: GroupState | None) -> dict[str, Any]:
    """The part that is shown of declarative groups only, as JSON."""
    return {} if group is None else {"declarative": to_json(group)}


def lines(group: GroupState | None) -> list[str]:
    """The same part in lines, for people."""
    if group is None:
        return []
    moments = [_MOMENTS] if group.members else []
    return [*moments, *tables(group).split("\n"), *configuration_lines(group)]
