"""What a member needs to compute a target, and what becomes of what it has computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from airflow_provider.coordinator.state import GroupState
from airflow_provider.declarative.model import (
    LEAVING,
    AssignmentEpoch,
    AssignorMetadata,
    Group,
    Member,
    MemberEpoch,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.declarative.units import tasks_of, units_of
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentRequest, InstalledMember
from airflow_provider.declarative.wire.prepare_assignment import (
    ConnectGroupPrepareAssignmentResponse,
    PreparedMember,
    SelectedAssignor,
)
from airflow_provider.protocol.in_short import in_short
from airflow_provider.protocol.model import PLANNER_INDEX, MemberId, TaskId

_HIGHEST_VERSION = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an assignment is computed from, and validated by: the group may have moved on meanwhile.

    :param assignor: the name of the selected one
    :param target: the last target assignment
    :param last_said: what members that have left had said of themselves, as far as it is known
    """

    group: Group
    assignor: str
    target: TargetAssignment = field(default_factory=TargetAssignment)
    last_said: Mapping[MemberId, Member] = field(default_factory=dict)

    @property
    def departed(self) -> dict[MemberId, MemberTarget]:
        """Who is no member, and had something by the last target; and who has had something kept since then, though it
        may be back.
        """
        gone = {one: target for one, target in self.target.members.items() if one not in self.group.members}
        return gone | dict(self.target.delayed)


def prepare(state: GroupState, assignor: str, last_said: Mapping[MemberId, Member] | None = None) -> Prepared:
    """What an assignment of this group is to be computed from. It stays as it is.

    :param last_said: of members that have left since the last target was installed. It matters how they left, and who
        is back under its instance id; of whom nothing is known is waited for as for anybody who was lost
    """
    return Prepared(state.group, assignor, state.target, dict(last_said or {}))


def prepared_reply(state: GroupState, prepared: Prepared) -> ConnectGroupPrepareAssignmentResponse:
    """What the chosen member is sent."""
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
            _prepared(prepared, one, prepared.last_said.get(one), LEAVING, target)
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
    """Why what was computed can't be installed; None if it can.

    What an assignor that has failed hands in beside its error is not looked at.
    """
    if request.group_epoch != prepared.group.epoch:
        return f"the assignment is of group epoch {request.group_epoch}: epoch {prepared.group.epoch} was prepared"
    if request.error:
        return None
    return next(chain(_wrong_workers(request, prepared), _wrong_tasks(request, prepared)), None)


def _wrong_workers(request: ConnectGroupInstallAssignmentRequest, prepared: Prepared) -> Iterator[str]:
    """All workers exist, each once; what is delayed waits for one that has left and had it."""
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
    """All tasks that are configured, and no others, each once: assigned or delayed."""
    configured = prepared.group.configured
    holders: dict[TaskId, InstalledMember] = {}
    for one in chain(request.members, request.delayed):
        for task in _each(one):
            if task in holders:
                other = holders[task].member_id
                where = f"worker {other}" if other == one.member_id else f"workers {other} and {one.member_id}"
                yield f"{_named((task,))} assigned twice, to {where}"
            if task not in configured:
                yield f"{_named((task,))} assigned to worker {one.member_id}, and not configured"
            holders[task] = one
    if len(holders) < len(configured):
        yield f"{_named(configured - holders.keys())} assigned to nobody"


def _each(member: InstalledMember) -> Iterator[TaskId]:
    """Every task as often as it is named."""
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
    """The new target, of the epoch that it was made of, though the group may have moved on. An assignor that has failed
    leaves everybody's as it was.
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
