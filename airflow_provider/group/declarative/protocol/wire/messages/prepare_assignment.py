"""``ConnectGroupPrepareAssignment``: the chosen member asks for the state from which it computes an assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, Struct, TaggedField
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactArrayOf,
)
from airflow_provider.group.declarative.protocol.wire.parts import CONNECTORS_AND_TASKS, ConnectorsAndTasks
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupPrepareAssignmentRequest:
    """Asks for a group's state.

    :param group_id: not empty
    :param member_id: not empty
    :param member_epoch: 0 or more
    """

    group_id: str
    member_id: MemberId
    member_epoch: MemberEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedAssignor:
    """What one member says of itself by the selected assignor.

    :param version: the version of ``metadata``
    :param reason: why the metadata have changed, as the assignor numbers reasons
    """

    version: int
    reason: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMember:
    """A member, or one that has left, with its part of the last target assignment.

    This includes the metadata that the assignor sent it: an assignor finds there what it has to remember from one
    assignment to the next, whichever member computes. The schema has no fields for that, so they are tagged fields.

    :param instance_id: empty: none. The schema allows no null here, and no instance id is empty
    :param assignor: what it says, or has said last, by the selected assignor
    :param connectors_and_tasks: its tasks in the last target assignment
    :param assigned_version: the version of ``assigned_metadata``
    :param assigned_metadata: what the assignor sent it with the last target assignment
    """

    member_id: MemberId
    member_epoch: MemberEpoch
    instance_id: str = ""
    assignor: SelectedAssignor
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = ()
    assigned_version: int = 0
    assigned_metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupPrepareAssignmentResponse:
    """A group's state.

    The schema only has fields for the members. What else an assignor needs to know is in tagged fields.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none
    :param group_epoch: the group epoch of this state, to be sent back with the assignment
    :param assignor_name: the selected assignor
    :param members: the members of the group
    :param connectors_tasks: the configured tasks. The assignment is validated against them; what the member has read
        itself may be older or newer
    :param scheduled_rebalance_max_delay_ms: the group's scheduled delay; -1: the assignor's default
    :param departed: former members that have tasks in the last target assignment, or for which it delays some: these
        tasks are lost, and not new
    """

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    group_epoch: GroupEpoch = GroupEpoch(0)
    assignor_name: str = ""
    members: tuple[PreparedMember, ...] = ()
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()
    scheduled_rebalance_max_delay_ms: int = -1
    departed: tuple[PreparedMember, ...] = ()


REQUEST: Final = Struct(
    "ConnectGroupPrepareAssignmentRequest",
    ConnectGroupPrepareAssignmentRequest,
    (Field("GroupId", COMPACT_STRING), Field("MemberId", COMPACT_STRING), Field("MemberEpoch", INT32)),
)

_ASSIGNOR: Final = Struct(
    "Assignor",
    SelectedAssignor,
    (Field("Version", INT16), Field("Reason", INT8), Field("Metadata", COMPACT_BYTES)),
)

_MEMBER: Final = Struct(
    "Member",
    PreparedMember,
    (
        Field("MemberId", COMPACT_STRING),
        Field("MemberEpoch", INT32),
        Field("InstanceId", COMPACT_STRING),
        Field("Assignor", _ASSIGNOR),
        Field("ConnectorsAndTasks", CONNECTORS_AND_TASKS),
    ),
    (
        TaggedField(0, Field("AssignedVersion", INT16), 0),
        TaggedField(1, Field("AssignedMetadata", COMPACT_BYTES), b""),
    ),
)

RESPONSE: Final = Struct(
    "ConnectGroupPrepareAssignmentResponse",
    ConnectGroupPrepareAssignmentResponse,
    (
        Field("ThrottleTimeMs", INT32),
        Field("ErrorCode", INT16),
        Field("ErrorMessage", COMPACT_NULLABLE_STRING),
        Field("GroupEpoch", INT32),
        Field("AssignorName", COMPACT_STRING),
        Field("Members", CompactArrayOf(_MEMBER)),
    ),
    (
        TaggedField(0, Field("ConnectorsTasks", CONNECTORS_AND_TASKS), ()),
        TaggedField(1, Field("ScheduledRebalanceMaxDelayMs", INT32), -1),
        TaggedField(2, Field("Departed", CompactArrayOf(_MEMBER)), ()),
    ),
)
