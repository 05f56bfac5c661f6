"""Converts values to records and back.

A function for each kind of record makes it (``*_record``, ``*_tombstone``), and one reads it (``*_of``). A tombstone's
value (None) is read as the default, or as None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from airflow_provider.group.declarative.coordinator.settings import (
    CONFIG_NAMES,
    DEFAULTS,
    SESSION_TIMEOUT,
    GroupConfiguration,
)
from airflow_provider.group.declarative.protocol.model import (
    AssignorMetadata,
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberState,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.record_values import (
    Configuration,
    ConnectWorkerGroupConfigurationKey,
    ConnectWorkerGroupConfigurationValue,
    ConnectWorkerGroupConnectorsTasksMetadataKey,
    ConnectWorkerGroupConnectorsTasksMetadataValue,
    ConnectWorkerGroupCurrentMemberAssignmentKey,
    ConnectWorkerGroupCurrentMemberAssignmentValue,
    ConnectWorkerGroupMemberMetadataKey,
    ConnectWorkerGroupMemberMetadataValue,
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupMetadataValue,
    ConnectWorkerGroupTargetAssignmentKey,
    ConnectWorkerGroupTargetAssignmentValue,
    TargetMember,
)
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import NO_TASKS, MemberId, RemoteProtocolError, Tasks

_STATES: Final = (MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED)
_EARLIER_SESSION: Final = f"{SESSION_TIMEOUT}.earlier"
"""Written by coordinators; people can't set it."""


def epoch_record(group_id: str, epoch: GroupEpoch) -> Record:
    return Record(ConnectWorkerGroupMetadataKey(group_id), ConnectWorkerGroupMetadataValue(epoch=epoch))


def epoch_of(value: object) -> GroupEpoch:
    return value.epoch if isinstance(value, ConnectWorkerGroupMetadataValue) else GroupEpoch(0)


def configured_record(group_id: str, epoch: GroupEpoch, tasks: Tasks) -> Record:
    return Record(
        ConnectWorkerGroupConnectorsTasksMetadataKey(group_id),
        ConnectWorkerGroupConnectorsTasksMetadataValue(epoch=epoch, connectors_tasks=units_of(tasks)),
    )


def configured_of(value: object) -> Tasks:
    if not isinstance(value, ConnectWorkerGroupConnectorsTasksMetadataValue):
        return NO_TASKS
    return tasks_of(value.connectors_tasks)


def member_record(group_id: str, epoch: GroupEpoch, member_id: MemberId, member: Member) -> Record:
    return Record(ConnectWorkerGroupMemberMetadataKey(group_id, member_id), _member_value(epoch, member))


def _member_value(epoch: GroupEpoch, member: Member) -> ConnectWorkerGroupMemberMetadataValue:
    return ConnectWorkerGroupMemberMetadataValue(
        group_epoch=epoch,
        instance_id=member.instance_id or "",
        client_id=member.client_id,
        client_host=member.client_host,
        assignors=member.client_assignors,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def member_tombstone(group_id: str, member_id: MemberId) -> Record:
    return Record(ConnectWorkerGroupMemberMetadataKey(group_id, member_id), None)


def member_of(value: object) -> Member | None:
    if not isinstance(value, ConnectWorkerGroupMemberMetadataValue):
        return None
    return Member(
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        instance_id=value.instance_id or None,
        client_id=value.client_id,
        client_host=value.client_host,
        client_assignors=value.assignors,
    )


def target_record(group_id: str, target: TargetAssignment) -> Record:
    return Record(
        ConnectWorkerGroupTargetAssignmentKey(group_id),
        ConnectWorkerGroupTargetAssignmentValue(
            assignment_epoch=target.epoch,
            error=target.error,
            members=_target_members(target.members),
            delayed=_target_members(target.delayed),
        ),
    )


def _target_members(targets: Mapping[MemberId, MemberTarget]) -> tuple[TargetMember, ...]:
    return tuple(
        TargetMember(
            member_id=member_id,
            error=target.metadata.error,
            connectors_tasks=units_of(target.tasks),
            version=target.metadata.version,
            metadata=target.metadata.data,
        )
        for member_id, target in targets.items()
    )


def target_of(value: object) -> TargetAssignment:
    if not isinstance(value, ConnectWorkerGroupTargetAssignmentValue):
        return TargetAssignment()
    return TargetAssignment(
        epoch=value.assignment_epoch,
        error=value.error,
        members=_targets(value.members),
        delayed=_targets(value.delayed),
    )


def _targets(members: Iterable[TargetMember]) -> dict[MemberId, MemberTarget]:
    return {
        one.member_id: MemberTarget(
            tasks=tasks_of(one.connectors_tasks),
            metadata=AssignorMetadata(error=one.error, version=one.version, data=one.metadata),
        )
        for one in members
    }


def current_record(group_id: str, member_id: MemberId, current: CurrentAssignment) -> Record:
    return Record(
        ConnectWorkerGroupCurrentMemberAssignmentKey(group_id, member_id),
        ConnectWorkerGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            error=current.metadata.error,
            connectors_tasks=units_of(current.assigned),
            version=current.metadata.version,
            metadata=current.metadata.data,
            state=_STATES.index(current.state),
            connectors_tasks_pending_revocation=units_of(current.revoking),
            assignment_epoch=current.assignment_epoch,
            last_said=None if current.last_said is None else _member_value(GroupEpoch(0), current.last_said),
        ),
    )


def current_tombstone(group_id: str, member_id: MemberId) -> Record:
    return Record(ConnectWorkerGroupCurrentMemberAssignmentKey(group_id, member_id), None)


def current_of(value: object) -> CurrentAssignment | None:
    """Read a current assignment.

    :raises RemoteProtocolError: a newer release has written a state that this one does not know
    """
    if not isinstance(value, ConnectWorkerGroupCurrentMemberAssignmentValue):
        return None
    if not 0 <= value.state < len(_STATES):
        raise RemoteProtocolError(f"a member's state is {value.state}: this release knows 0, 1 and 2; use a newer one")
    return CurrentAssignment(
        epoch=value.member_epoch,
        state=_STATES[value.state],
        assigned=tasks_of(value.connectors_tasks),
        revoking=tasks_of(value.connectors_tasks_pending_revocation),
        metadata=AssignorMetadata(error=value.error, version=value.version, data=value.metadata),
        assignment_epoch=value.assignment_epoch,
        last_said=member_of(value.last_said),
    )


def configuration_record(group_id: str, configuration: GroupConfiguration, earlier_session_ms: int = 0) -> Record:
    """The record of a group's settings; a tombstone if none is set.

    :param earlier_session_ms: a longer session that members may have been granted before; 0: none
    """
    entries = [
        Configuration(name=name, value=str(value))
        for name, attribute in CONFIG_NAMES.items()
        if (value := getattr(configuration, attribute)) is not None
    ]
    if earlier_session_ms:
        entries.append(Configuration(name=_EARLIER_SESSION, value=str(earlier_session_ms)))
    key = ConnectWorkerGroupConfigurationKey(group_id)
    return Record(key, ConnectWorkerGroupConfigurationValue(configurations=tuple(entries)) if entries else None)


def earlier_session_of(value: object) -> int:
    """Read the longer session that members may have been granted before, in milliseconds; 0: none.

    :raises RemoteProtocolError: it is not a number
    """
    if not isinstance(value, ConnectWorkerGroupConfigurationValue):
        return 0
    try:
        return next((int(one.value) for one in value.configurations if one.name == _EARLIER_SESSION), 0)
    except ValueError as wrong:
        raise RemoteProtocolError(f"the settings of a group are invalid: {wrong}") from None


def configuration_of(value: object) -> GroupConfiguration:
    """Read a group's settings. Unknown settings, of a newer release, are left out.

    :raises RemoteProtocolError: a value is not a number, or out of range
    """
    if not isinstance(value, ConnectWorkerGroupConfigurationValue):
        return DEFAULTS
    try:
        return GroupConfiguration(
            **{CONFIG_NAMES[one.name]: int(one.value) for one in value.configurations if one.name in CONFIG_NAMES}
        )
    except ValueError as wrong:
        raise RemoteProtocolError(f"the settings of a group are invalid: {wrong}") from None
