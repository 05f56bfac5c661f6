"""Prepares the state from which a target is computed, and checks and converts the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from airflow_provider.group.declarative.coordinator.assignors.prepared import Prepared
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.protocol.model import (
    LEAVING,
    AssignmentEpoch,
    AssignorMetadata,
    Member,
    MemberEpoch,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
    SelectedAssignor,
)
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import PLANNER_INDEX, MemberId, TaskId

_HIGHEST_VERSION = 2**15 - 1


def prepare(state: GroupState, assignor: str) -> Prepared:
    """The state from which an assignment of this group is to be computed. It does not change with the group.

    :param assignor: the name of the selected assignor
    """
    return Prepared(state.group, assignor, state.target, dict(state.last_said))


def prepared_reply(state: GroupState, prepared: Prepared) -> ConnectGroupPrepareAssignmentResponse:
    """The reply to *prepare*, for the chosen member."""
    delay_ms = state.configuration.scheduled_rebalance_max_delay_ms
    return ConnectGroupPrepareAssignmentResponse(
        group_epoch=prepared.group.epoch,
        assignor_name=prepared.assignor,
        members=tuple(
            _prepared(prepared, one, member, state.current[one].epoch, prepared.target.of(one))
            for one, member in prepared.group.members.items()
        ),
        connectors_tasks=units_of(prepared.group.configured),
        scheduled_rebalance_max_delay_ms=-1 if delay_ms is None else delay_ms,
        departed=tuple(
            _prepared(prepared, one, prepared.said_by(one), LEAVING, target)
            for one, target in prepared.departed.items()
        ),
    )


def _prepared(
    prepared: Prepared, member_id: MemberId, member: Member | None, epoch: MemberEpoch, target: MemberTarget
) -> PreparedMember:
    said = member.client_assignors if member else ()
    assignor = next((one for one in said if one.name == prepared.assignor), None)
    return PreparedMember(
        member_id=member_id,
        member_epoch=epoch,
        instance_id=(member.instance_id if member else None) or "",
        assignor=SelectedAssignor(version=assignor.version, reason=assignor.reason, metadata=assignor.metadata)
        if assignor
        else SelectedAssignor(version=0),
        connectors_and_tasks=units_of(target.tasks),
        assigned_version=target.metadata.version,
        assigned_metadata=target.metadata.data,
    )


def invalid(request: ConnectGroupInstallAssignmentRequest, prepared: Prepared) -> str | None:
    """Why an assignment can't be installed; None if it can. If the assignor has failed, only the epoch is checked."""
    if request.group_epoch != prepared.group.epoch:
        return f"the assignment is of group epoch {request.group_epoch}: epoch {prepared.group.epoch} was prepared"
    if request.error:
        return None
    return next(chain(_wrong_workers(request, prepared), _wrong_tasks(request, prepared)), None)


def _wrong_workers(request: ConnectGroupInstallAssignmentRequest, prepared: Prepared) -> Iterator[str]:
    """All workers exist, and are named once. Tasks are delayed only for a worker that has left and had them."""
    members, departed, epoch = prepared.group.members, prepared.departed, prepared.group.epoch
    seen: set[MemberId] = set()
    for one in chain(request.members, request.delayed):
        if one.member_id in seen:
            yield f"worker {one.member_id} is named twice"
        if not 0 <= one.version <= _HIGHEST_VERSION:
            yield f"worker {one.member_id}: metadata of version {one.version}, at most {_HIGHEST_VERSION} is kept"
        seen.add(one.member_id)
    for one in request.members:
        if one.member_id not in members:
            yield f"worker {one.member_id} is not in the group at epoch {epoch}"
    for one in request.delayed:
        if one.member_id not in departed:
            yield f"tasks are delayed for worker {one.member_id}, which has not left since the last assignment"
            continue
        others = tasks_of(one.connectors_and_tasks) - departed[one.member_id].tasks
        if others:
            yield f"{_named(others)} delayed for worker {one.member_id}, which did not have it"


def _wrong_tasks(request: ConnectGroupInstallAssignmentRequest, prepared: Prepared) -> Iterator[str]:
    """Exactly the configured tasks are assigned or delayed, each once."""
    configured = prepared.group.configured
    holders: dict[TaskId, InstalledMember] = {}
    for one in chain(request.members, request.delayed):
        for task in _tasks(one):
            if task in holders:
                other = holders[task].member_id
                where = f"worker {other}" if other == one.member_id else f"workers {other} and {one.member_id}"
                yield f"{_named((task,))} assigned twice, to {where}"
            if task not in configured:
                yield f"{_named((task,))} assigned to worker {one.member_id}, and not configured"
            holders[task] = one
    if len(holders) < len(configured):
        yield f"{_named(configured - holders.keys())} assigned to nobody"


def _tasks(member: InstalledMember) -> Iterator[TaskId]:
    """Its tasks, each as often as it is named."""
    for part in member.connectors_and_tasks:
        for job in part.connectors:
            yield TaskId(job, PLANNER_INDEX)
        yield from part.tasks


def _named(tasks: Iterable[TaskId]) -> str:
    ordered = sorted(tasks)
    return f"{in_short(ordered)} {'is' if len(ordered) == 1 else 'are'}"


def installed(
    request: ConnectGroupInstallAssignmentRequest, prepared: Prepared, before: TargetAssignment
) -> TargetAssignment:
    """The new target, with the epoch from which it was computed, which may be below the group's by now. If the assignor
    has failed, all members keep their targets.
    """
    epoch = AssignmentEpoch(prepared.group.epoch)
    if request.error:
        return TargetAssignment(epoch=epoch, error=request.error, members=before.members, delayed=before.delayed)
    return TargetAssignment(epoch=epoch, members=_targets(request.members), delayed=_targets(request.delayed))


def _targets(members: Iterable[InstalledMember]) -> dict[MemberId, MemberTarget]:
    return {
        one.member_id: MemberTarget(
            tasks=tasks_of(one.connectors_and_tasks),
            metadata=AssignorMetadata(version=one.version, data=one.metadata),
        )
        for one in members
    }
