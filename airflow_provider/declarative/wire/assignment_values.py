"""The values of the records that say what the members of a group shall have, and what they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.declarative.model import AssignmentEpoch, MemberEpoch
from airflow_provider.declarative.wire.parts import CONNECTORS_AND_TASKS, ConnectorsAndTasks
from airflow_provider.declarative.wire.structs import Field, Struct, TaggedField
from airflow_provider.declarative.wire.types import COMPACT_BYTES, COMPACT_STRING, INT8, INT16, INT32, CompactArrayOf
from airflow_provider.protocol.model import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMember:
    """What one member shall have.

    :param error: the assignor's for this member; 0 is none
    :param version: of ``metadata``
    :param metadata: what the assignor says to it
    """

    member_id: MemberId
    error: int = 0
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupTargetAssignmentValue:
    """What all members shall have. The schema is called GroupTargetAssignmentValue, its record as this class.

    :param assignment_epoch: the group epoch that it was made of
    :param error: why the assignor could not make one; the members' are then those of before. The data model has it and
        the schema has not, so it is a tagged field
    :param delayed: what nobody is given on purpose, by the member that had it and has left; a tagged field, as in the
        request that installs it
    """

    assignment_epoch: AssignmentEpoch
    members: tuple[TargetMember, ...] = ()
    error: int = 0
    delayed: tuple[TargetMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupCurrentMemberAssignmentValue:
    """What one member has. The schema is called ConnectGroupCurrentMemberAssignmentValue, its record as this class.

    The schema has no place for how far the member is, nor for what it was asked to stop and may still run, nor for the
    target that it has its tasks from. A coordinator that takes over must know them, or it would give to others what
    still runs here. They are tagged fields; Kafka's ``ConsumerGroupCurrentMemberAssignmentValue`` has the first two.

    :param member_epoch: the epoch whose target it has reached
    :param error: the assignor's for this member; 0 is none
    :param connectors_tasks: what it may run
    :param version: of ``metadata``
    :param metadata: what the assignor says to it
    :param state: 0 stable, 1 it has to stop something, 2 it waits for others, as Kafka's ``MemberState`` counts
    :param connectors_tasks_pending_revocation: what it was asked to stop and may still run
    :param assignment_epoch: of the target that it was last assigned from; 0: not said, as earlier releases wrote it
    """

    member_epoch: MemberEpoch
    error: int = 0
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""
    state: int = 0
    connectors_tasks_pending_revocation: tuple[ConnectorsAndTasks, ...] = ()
    assignment_epoch: AssignmentEpoch = AssignmentEpoch(0)


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
    ),
)
