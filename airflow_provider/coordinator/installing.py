"""What a member needs to compute a target, and what becomes of what it has computed."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.coordinator.state import GroupState
from airflow_provider.declarative.model import AssignmentEpoch, AssignorMetadata, Group, MemberTarget, TargetAssignment
from airflow_provider.declarative.units import tasks_of, units_of
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentRequest
from airflow_provider.declarative.wire.prepare_assignment import (
    ConnectGroupPrepareAssignmentResponse,
    PreparedMember,
    SelectedAssignor,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an assignment is computed from, and validated by: the group may have moved on meanwhile.

    :param assignor: the name of the selected one
    """

    group: Group
    assignor: str


def prepared_reply(state: GroupState, prepared: Prepared) -> ConnectGroupPrepareAssignmentResponse:
    """What the chosen member is sent."""
    members = []
    for member_id, member in prepared.group.members.items():
        assignor = next(one for one in member.client_assignors if one.name == prepared.assignor)
        current = state.current[member_id]
        members.append(
            PreparedMember(
                member_id=member_id,
                member_epoch=current.epoch,
                instance_id=member.instance_id or "",
                assignor=SelectedAssignor(version=assignor.version, reason=assignor.reason, metadata=assignor.metadata),
                connectors_and_tasks=units_of(current.assigned),
            )
        )
    return ConnectGroupPrepareAssignmentResponse(
        group_epoch=prepared.group.epoch,
        assignor_name=prepared.assignor,
        members=tuple(members),
        connectors_tasks=units_of(prepared.group.configured),
    )


def invalid(request: ConnectGroupInstallAssignmentRequest, prepared: Prepared) -> str | None:
    """Why what was computed can't be installed; None if it can."""
    if request.group_epoch != prepared.group.epoch:
        return f"It is of group epoch {request.group_epoch}: epoch {prepared.group.epoch} was prepared"
    shares = [request.delayed, *(one.connectors_and_tasks for one in request.members)]
    dealt = [task for share in shares for task in tasks_of(share)]
    if len(dealt) != len(set(dealt)):
        return "A task is assigned twice"
    if set(dealt) != prepared.group.configured:
        return "What is assigned is not what is configured"
    if any(one.member_id not in prepared.group.members for one in request.members):
        return "A worker is not in the group"
    return None


def installed(
    request: ConnectGroupInstallAssignmentRequest, prepared: Prepared, before: TargetAssignment
) -> TargetAssignment:
    """The new target. An assignor that has failed leaves everybody's as it was."""
    epoch = AssignmentEpoch(prepared.group.epoch)
    if request.error:
        return TargetAssignment(epoch=epoch, error=request.error, members=before.members)
    return TargetAssignment(
        epoch=epoch,
        members={
            one.member_id: MemberTarget(
                tasks=tasks_of(one.connectors_and_tasks),
                metadata=AssignorMetadata(version=one.version, data=one.metadata),
            )
            for one in request.members
        },
    )
