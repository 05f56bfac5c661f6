"""Converts a group's state to the input of an assignor, and its result to what is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.assignment.model import NONE_ELSEWHERE, Absence, TriedElsewhere
from airflow_provider.group.declarative.assignors.client_assignor import (
    Assignment,
    ClientSideAssignor,
    Group,
    GroupMember,
    WorkerFacts,
)
from airflow_provider.group.declarative.protocol.model import AssignorMetadata, MemberTarget
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupPrepareAssignmentResponse,
    HeartbeatAssignment,
    InstalledMember,
    PreparedMember,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import MemberId, TaskId, WorkerId


def group_of(
    prepared: ConnectGroupPrepareAssignmentResponse,
    *,
    computing: MemberId,
    now_ms: int,
    revocation_rank: Mapping[TaskId, int],
    costs: Costs = NO_COSTS,
    tried: TriedElsewhere = NONE_ELSEWHERE,
    absent: Mapping[MemberId, Absence] = MappingProxyType({}),
    held_back: frozenset[WorkerId] = frozenset(),
) -> Group:
    """The group's state as the input of an assignor.

    :param computing: this member
    :param now_ms: wall clock, milliseconds since 1970
    :param revocation_rank: which running tasks to stop first if some must be stopped, as far as this member knows
    :param costs: what batch tasks cost, as far as this member knows
    :param tried: the tasks that have failed, and where they are tried again, as far as this member knows
    :param absent: what former members have written of their absence, as far as this member knows
    :param held_back: workers that may not be started, as far as this member knows
    """
    delay_ms = prepared.scheduled_rebalance_max_delay_ms
    return Group(
        computing=computing,
        members={one.member_id: _member(one) for one in prepared.members},
        departed={one.member_id: _member(one) for one in prepared.departed},
        configured=tasks_of(prepared.connectors_tasks),
        now_ms=now_ms,
        max_delay_ms=delay_ms if delay_ms >= 0 else None,
        revocation_rank=revocation_rank,
        costs=costs,
        tried=tried,
        absent=absent,
        held_back=held_back,
    )


def as_prepared(record: GroupRecord, prepared: ConnectGroupPrepareAssignmentResponse) -> GroupRecord:
    """The group's last record, with the members that there are now and what each has: the coordinator knows it, and
    whoever computes may not have read the record of the last target yet.
    """
    named = {WorkerId(one.instance_id): one for one in prepared.members if one.instance_id}
    return replace(
        record,
        members={worker: one.member_id for worker, one in named.items()},
        assignment={worker: tasks_of(one.connectors_and_tasks) for worker, one in named.items()},
    )


def _member(one: PreparedMember) -> GroupMember:
    return GroupMember(
        instance_id=one.instance_id or None,
        reason=one.assignor.reason,
        version=one.assignor.version,
        metadata=one.assignor.metadata,
        target=MemberTarget(
            tasks=tasks_of(one.connectors_and_tasks),
            metadata=AssignorMetadata(version=one.assigned_version, data=one.assigned_metadata),
        ),
    )


def installed(targets: Mapping[MemberId, MemberTarget]) -> tuple[InstalledMember, ...]:
    """The targets of an :class:`Assignment`, or its delayed tasks, as *install* has them."""
    return tuple(
        InstalledMember(
            member_id=member,
            connectors_and_tasks=units_of(target.tasks),
            version=target.metadata.version,
            metadata=target.metadata.data,
        )
        for member, target in targets.items()
    )


def target_of(assignment: HeartbeatAssignment) -> MemberTarget:
    """A member's assignment as its assignor gets it."""
    return MemberTarget(
        tasks=tasks_of(assignment.connectors_and_tasks),
        metadata=AssignorMetadata(error=assignment.error, version=assignment.version, data=assignment.metadata),
    )


def described(assignors: Iterable[ClientSideAssignor], facts: WorkerFacts) -> tuple[Assignor, ...]:
    """A member's assignors as its heartbeats have them."""
    return tuple(_described(assignor, facts) for assignor in assignors)


def _described(assignor: ClientSideAssignor, facts: WorkerFacts) -> Assignor:
    said = assignor.metadata(facts)
    return Assignor(
        name=assignor.name,
        minimum_version=assignor.minimum_version,
        maximum_version=assignor.maximum_version,
        reason=said.reason,
        version=said.version,
        metadata=said.metadata,
    )


def assigned_by(assignors: Iterable[ClientSideAssignor], name: str, group: Group) -> Assignment:
    """Run the selected assignor.

    :raises KeyError: there is no assignor of this name
    :raises Exception: whatever the assignor raises
    """
    return {one.name: one for one in assignors}[name].assign(group)
