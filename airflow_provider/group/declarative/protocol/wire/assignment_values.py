"""The values of the records with target assignments and current assignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    Bytes,
    CompactArrayOf,
    Int8,
    Int16,
    NullableStruct,
)
from airflow_provider.group.declarative.protocol.wire.metadata_values import ConnectWorkerGroupMemberMetadataValue
from airflow_provider.group.declarative.protocol.wire.parts import Units
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMember:
    """The target of one member.

    :param error: the assignor's error for this member; 0: none
    :param version: the version of ``metadata``
    :param metadata: what the assignor sends this member
    """

    member_id: Annotated[MemberId, COMPACT_STRING]
    error: Int8 = 0
    connectors_tasks: Units = ()
    version: Int16 = 0
    metadata: Bytes = b""


_MEMBERS: Final = CompactArrayOf(struct_of(TargetMember))
_LAST_SAID: Final = NullableStruct(struct_of(ConnectWorkerGroupMemberMetadataValue))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupTargetAssignmentValue:
    """The target assignment. In the proposal, the record is called like this class, its schema
    GroupTargetAssignmentValue.

    :param assignment_epoch: the group epoch from which it was computed
    :param error: the error of an assignor that could not compute one; then the members keep their targets; 0: none. A
        tagged field, because it is in the proposal's data model but not in its schema
    :param delayed: tasks that wait for a member that has left, by that member; a tagged field, as in the request that
        installs it
    """

    assignment_epoch: Annotated[AssignmentEpoch, INT32]
    members: Annotated[tuple[TargetMember, ...], _MEMBERS] = ()
    error: Annotated[Int8, Tag(0)] = 0
    delayed: Annotated[tuple[TargetMember, ...], _MEMBERS, Tag(1)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupCurrentMemberAssignmentValue:
    """The current assignment of one member. In the proposal, the record is called like this class, its schema
    ConnectGroupCurrentMemberAssignmentValue.

    The schema has no fields for the member's state, its revoked tasks, and the epoch of the target from which its tasks
    were assigned. They are tagged fields, because the next coordinator must know them: otherwise it would give tasks to
    others that still run here. Kafka's ``ConsumerGroupCurrentMemberAssignmentValue`` has the first two.

    What a member says as it leaves is a tagged field here, and not in the record of the member: a release that does not
    know the field takes this record for that of a removed member, and the other one for that of a member.

    :param member_epoch: the epoch whose target it has reached
    :param error: the assignor's error for this member; 0: none
    :param connectors_tasks: the tasks that it may run
    :param version: the version of ``metadata``
    :param metadata: what the assignor sends this member
    :param state: 0: stable, 1: it has to stop tasks, 2: it waits for tasks of others; the numbers are those of Kafka's
        ``MemberState``
    :param connectors_tasks_pending_revocation: the tasks that it was asked to stop, and may still run
    :param assignment_epoch: the epoch of the target from which tasks were last assigned; 0: not known, because an
        earlier release wrote it
    :param last_said: what a former member had said of itself when it left, as the record of a member has it, without a
        group epoch; None: it is a member, or the next target does not depend on how it left
    """

    member_epoch: Annotated[MemberEpoch, INT32]
    error: Int8 = 0
    connectors_tasks: Units = ()
    version: Int16 = 0
    metadata: Bytes = b""
    state: Annotated[Int8, Tag(0)] = 0
    connectors_tasks_pending_revocation: Annotated[Units, Tag(1)] = ()
    assignment_epoch: Annotated[AssignmentEpoch, INT32, Tag(2)] = AssignmentEpoch(0)
    last_said: Annotated[ConnectWorkerGroupMemberMetadataValue | None, _LAST_SAID, Tag(3)] = None
