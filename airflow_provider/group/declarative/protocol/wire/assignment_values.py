"""The values of the records with target assignments and current assignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, Struct, TaggedField
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_BYTES,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactArrayOf,
    NullableStruct,
)
from airflow_provider.group.declarative.protocol.wire.metadata_values import (
    MEMBER_METADATA_VALUE,
    ConnectWorkerGroupMemberMetadataValue,
)
from airflow_provider.group.declarative.protocol.wire.parts import CONNECTORS_AND_TASKS, ConnectorsAndTasks
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMember:
    """The target of one member.

    :param error: the assignor's error for this member; 0: none
    :param version: the version of ``metadata``
    :param metadata: what the assignor sends this member
    """

    member_id: MemberId
    error: int = 0
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""


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

    assignment_epoch: AssignmentEpoch
    members: tuple[TargetMember, ...] = ()
    error: int = 0
    delayed: tuple[TargetMember, ...] = ()


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

    member_epoch: MemberEpoch
    error: int = 0
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""
    state: int = 0
    connectors_tasks_pending_revocation: tuple[ConnectorsAndTasks, ...] = ()
    assignment_epoch: AssignmentEpoch = AssignmentEpoch(0)
    last_said: ConnectWorkerGroupMemberMetadataValue | None = None


_MEMBER: Final = Struct(
    "Member",
    TargetMember,
    (
        Field("MemberId", COMPACT_STRING),
        Field("Error", INT8),
        Field("ConnectorsTasks", CONNECTORS_AND_TASKS),
        Field("Version", INT16),
        Field("Metadata", COMPACT_BYTES),
    ),
)

TARGET_ASSIGNMENT_VALUE: Final = Struct(
    "ConnectWorkerGroupTargetAssignmentValue",
    ConnectWorkerGroupTargetAssignmentValue,
    (Field("AssignmentEpoch", INT32), Field("Members", CompactArrayOf(_MEMBER))),
    (TaggedField(0, Field("Error", INT8), 0), TaggedField(1, Field("Delayed", CompactArrayOf(_MEMBER)), ())),
)

CURRENT_MEMBER_ASSIGNMENT_VALUE: Final = Struct(
    "ConnectWorkerGroupCurrentMemberAssignmentValue",
    ConnectWorkerGroupCurrentMemberAssignmentValue,
    (
        Field("MemberEpoch", INT32),
        Field("Error", INT8),
        Field("ConnectorsTasks", CONNECTORS_AND_TASKS),
        Field("Version", INT16),
        Field("Metadata", COMPACT_BYTES),
    ),
    (
        TaggedField(0, Field("State", INT8), 0),
        TaggedField(1, Field("ConnectorsTasksPendingRevocation", CONNECTORS_AND_TASKS), ()),
        TaggedField(2, Field("AssignmentEpoch", INT32), 0),
        TaggedField(3, Field("LastSaid", NullableStruct(MEMBER_METADATA_VALUE)), None),
    ),
)
