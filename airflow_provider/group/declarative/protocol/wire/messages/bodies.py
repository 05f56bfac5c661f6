"""The bodies of requests and replies.

``ConnectGroupAlterConfigs`` is not in the proposal, which has a record for the settings of a group, but no request.
Brokers get the settings of their own groups by IncrementalAlterConfigs (KIP-339, KIP-848); the fields here have the
same names and meanings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    Bytes,
    CompactArrayOf,
    CompactNullable,
    Int8,
    Int16,
    Int32,
    NullableStruct,
    NullableText,
    Text,
)
from airflow_provider.group.declarative.protocol.wire.parts import (
    ASSIGNORS,
    CONNECTORS_AND_TASKS,
    Assignor,
    ConnectorsAndTasks,
    Units,
)
from airflow_provider.values.model import MemberId

# ---- a member reports its state, and is told its assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatRequest:
    """A heartbeat. It contains all fields when a member joins or after an error, and otherwise those that have changed
    since the last heartbeat.

    :param group_id: not empty
    :param member_id: not empty
    :param member_epoch: the member's epoch; 0 to join, -1 to leave, -2 to leave for a while
    :param instance_id: the name of a static member; None: it has none, or unchanged
    :param rebalance_timeout_ms: how long it may take to stop revoked tasks; -1: unchanged
    :param server_assignor: the server side assignor that it asks for; None: none, or unchanged. Coordinators here have
        none, and refuse it
    :param client_assignors: its own assignors, the preferred one first; None: none, or unchanged
    :param connectors_and_tasks: the tasks that it owns; None: unchanged
    """

    group_id: Text
    member_id: Annotated[MemberId, COMPACT_STRING]
    member_epoch: Annotated[MemberEpoch, INT32]
    instance_id: NullableText = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableText = None
    client_assignors: Annotated[tuple[Assignor, ...] | None, CompactNullable(ASSIGNORS)] = None
    connectors_and_tasks: Annotated[tuple[ConnectorsAndTasks, ...] | None, CompactNullable(CONNECTORS_AND_TASKS)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAssignment:
    """All tasks that a member may run from now on.

    :param error: the assignor's error; 0: none
    :param version: the version of ``metadata``
    :param metadata: what the assignor sends this member
    :param assignment_epoch: the epoch of the target from which its tasks were last assigned; 0: not given. A tagged
        field. The member's records about its tasks have this epoch, because they must win over those of former owners.
        The member's own epoch would not do: while the member waits for tasks of others, that may be below the epoch of
        the former owner. Nor would the group's target: while the member stops tasks, it keeps the others by an earlier
        target
    """

    error: Int8 = 0
    connectors_and_tasks: Units = ()
    version: Int16 = 0
    metadata: Bytes = b""
    assignment_epoch: Annotated[AssignmentEpoch, INT32, Tag(0)] = AssignmentEpoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatResponse:
    """The answer to a heartbeat.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none
    :param member_epoch: the member's epoch; 0: the heartbeat was refused
    :param heartbeat_interval_ms: the time until the next heartbeat; 0 likewise
    :param assignment: None: the member has its whole target, or the heartbeat was refused
    :param session_timeout_ms: how long the member stays in the group without another heartbeat, from the sending of
        this one. For so long it may believe that its tasks are its own; -1: not given. A tagged field, because the
        schema has no field for it
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableText = None
    member_epoch: Annotated[MemberEpoch, INT32] = MemberEpoch(0)
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[HeartbeatAssignment | None, NullableStruct(struct_of(HeartbeatAssignment))] = None
    session_timeout_ms: Annotated[Int32, Tag(0)] = -1


# ---- the chosen member asks for the state from which it computes an assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupPrepareAssignmentRequest:
    """Asks for a group's state.

    :param group_id: not empty
    :param member_id: not empty
    :param member_epoch: 0 or more
    """

    group_id: Text
    member_id: Annotated[MemberId, COMPACT_STRING]
    member_epoch: Annotated[MemberEpoch, INT32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedAssignor:
    """What one member says of itself by the selected assignor.

    :param version: the version of ``metadata``
    :param reason: why the metadata have changed, as the assignor numbers reasons
    """

    version: Int16
    reason: Int8 = 0
    metadata: Bytes = b""


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

    member_id: Annotated[MemberId, COMPACT_STRING]
    member_epoch: Annotated[MemberEpoch, INT32]
    instance_id: Text = ""
    assignor: Annotated[SelectedAssignor, struct_of(SelectedAssignor)]
    connectors_and_tasks: Units = ()
    assigned_version: Annotated[Int16, Tag(0)] = 0
    assigned_metadata: Annotated[Bytes, Tag(1)] = b""


_PREPARED: Final = CompactArrayOf(struct_of(PreparedMember))


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

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableText = None
    group_epoch: Annotated[GroupEpoch, INT32] = GroupEpoch(0)
    assignor_name: Text = ""
    members: Annotated[tuple[PreparedMember, ...], _PREPARED] = ()
    connectors_tasks: Annotated[Units, Tag(0)] = ()
    scheduled_rebalance_max_delay_ms: Annotated[Int32, Tag(1)] = -1
    departed: Annotated[tuple[PreparedMember, ...], _PREPARED, Tag(2)] = ()


# ---- the chosen member installs the assignment that it has computed


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledMember:
    """The target of one member.

    :param version: the version of ``metadata``. It is an int32 here, but must fit into an int16, as in all other
        schemas
    :param metadata: what the assignor sends this member
    """

    member_id: Annotated[MemberId, COMPACT_STRING]
    connectors_and_tasks: Units = ()
    version: Int32 = 0
    metadata: Bytes = b""


_INSTALLED: Final = CompactArrayOf(struct_of(InstalledMember))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentRequest:
    """Asks to install a new target assignment.

    The proposal says that every task must be assigned. During a scheduled delay this is not possible, because tasks
    wait for the member that had them. These tasks are in a tagged field, so that a forgotten task is refused.

    :param group_id: not empty
    :param member_id: not empty
    :param member_epoch: 0 or more
    :param group_epoch: the group epoch of the state from which the assignment was computed
    :param error: the assignor's error; 0: none
    :param delayed: tasks that wait for a member that has left, by that member
    """

    group_id: Text
    member_id: Annotated[MemberId, COMPACT_STRING]
    member_epoch: Annotated[MemberEpoch, INT32]
    group_epoch: Annotated[GroupEpoch, INT32]
    error: Int8 = 0
    members: Annotated[tuple[InstalledMember, ...], _INSTALLED] = ()
    delayed: Annotated[tuple[InstalledMember, ...], _INSTALLED, Tag(0)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentResponse:
    """Says whether the assignment was installed.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none, the assignment is the target now
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableText = None


# ---- people set and read the settings of one group


class ConfigOperation(IntEnum):
    """What to do with a setting; the numbers are Kafka's (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    """Back to the default."""


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are Kafka's (``DescribeConfigsResponse.ConfigSource``)."""

    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """One change of a setting.

    :param value: None if it is deleted
    """

    name: Text
    config_operation: Int8 = ConfigOperation.SET
    value: NullableText = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsRequest:
    """Asks to make all of these changes, or none. Without changes it only asks for the present settings.

    :param group_id: not empty; the group need not exist yet
    """

    group_id: Text
    configs: Annotated[tuple[AlterableConfig, ...], CompactArrayOf(struct_of(AlterableConfig))] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One setting of a group, and its present value.

    :param value: None: the default is that of the members' assignors, which the coordinator does not know
    """

    name: Text
    value: NullableText
    config_source: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsResponse:
    """The settings of the group after the request.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none
    :param configs: all settings. A tagged field, because a coordinator that does not know this API answers without it
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableText = None
    configs: Annotated[tuple[GroupConfig, ...], CompactArrayOf(struct_of(GroupConfig)), Tag(0)] = ()
