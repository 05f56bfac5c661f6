"""From what the coordinator answers the member that computes, to what that member hands in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider.declarative.client_assignor import Assignment, Group, GroupMember
from airflow_provider.declarative.model import AssignorMetadata, GroupEpoch, MemberEpoch, MemberTarget
from airflow_provider.declarative.units import tasks_of, units_of
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentRequest, InstalledMember
from airflow_provider.declarative.wire.prepare_assignment import ConnectGroupPrepareAssignmentResponse, PreparedMember
from airflow_provider.protocol.model import MemberId, TaskId


def group_of(
    reply: ConnectGroupPrepareAssignmentResponse,
    *,
    computing: MemberId,
    now_ms: int,
    revocation_rank: Mapping[TaskId, int] | None = None,
) -> Group:
    """What the assignor is given.

    :param reply: to ``ConnectGroupPrepareAssignment``, without an error
    :param now_ms: wall clock, milliseconds since 1970
    :param revocation_rank: what costs to stop, as far as this member knows
    """
    delay_ms = reply.scheduled_rebalance_max_delay_ms
    return Group(
        computing=computing,
        members=_members(reply.members),
        departed=_members(reply.departed),
        configured=tasks_of(reply.connectors_tasks),
        now_ms=now_ms,
        max_delay_ms=delay_ms if delay_ms >= 0 else None,
        revocation_rank=revocation_rank or {},
    )


def install_request(
    group_id: str, member_id: MemberId, member_epoch: MemberEpoch, group_epoch: GroupEpoch, assignment: Assignment
) -> ConnectGroupInstallAssignmentRequest:
    """What the member sends.

    :param group_epoch: of the reply that the assignment was made of
    """
    return ConnectGroupInstallAssignmentRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        group_epoch=group_epoch,
        error=assignment.error,
        members=_installed(assignment.members),
        delayed=_installed(assignment.delayed),
    )


def _members(members: Iterable[PreparedMember]) -> dict[MemberId, GroupMember]:
    return {
        one.member_id: GroupMember(
            instance_id=one.instance_id or None,
            reason=one.assignor.reason,
            version=one.assignor.version,
            metadata=one.assignor.metadata,
            target=MemberTarget(
                tasks=tasks_of(one.connectors_and_tasks),
                metadata=AssignorMetadata(version=one.assigned_version, data=one.assigned_metadata),
            ),
        )
        for one in members
    }


def _installed(targets: Mapping[MemberId, MemberTarget]) -> tuple[InstalledMember, ...]:
    return tuple(
        InstalledMember(
            member_id=member_id,
            connectors_and_tasks=units_of(target.tasks),
            version=target.metadata.version,
            metadata=target.metadata.data,
        )
        for member_id, target in targets.items()
    )
