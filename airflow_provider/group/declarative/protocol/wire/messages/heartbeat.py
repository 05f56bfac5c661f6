"""``ConnectGroupHeartbeat``: a member reports its state, and is told its assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, Struct, TaggedField
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactNullable,
    NullableStruct,
)
from airflow_provider.group.declarative.protocol.wire.parts import (
    ASSIGNORS,
    CONNECTORS_AND_TASKS,
    NULLABLE_CONNECTORS_AND_TASKS,
    Assignor,
    ConnectorsAndTasks,
)
from airflow_provider.values.model import MemberId


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

    group_id: str
    member_id: MemberId
    member_epoch: MemberEpoch
    instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    client_assignors: tuple[Assignor, ...] | None = None
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] | None = None


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

    error: int = 0
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""
    assignment_epoch: AssignmentEpoch = AssignmentEpoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatResponse:
    """The answer to a heartbeat.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none
    :param heartbeat_interval_ms: the time until the next heartbeat
    :param assignment: None: the member has its whole target, or the heartbeat was refused
    :param session_timeout_ms: how long the member stays in the group without another heartbeat, from the sending of
        this one. For so long it may believe that its tasks are its own; -1: not given. A tagged field, because the
        schema has no field for it
    """

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_epoch: MemberEpoch
    heartbeat_interval_ms: int
    assignment: HeartbeatAssignment | None = None
    session_timeout_ms: int = -1


REQUEST: Final = Struct(
    "ConnectGroupHeartbeatRequest",
    ConnectGroupHeartbeatRequest,
    (
        Field("GroupId", COMPACT_STRING),
        Field("MemberId", COMPACT_STRING),
        Field("MemberEpoch", INT32),
        Field("InstanceId", COMPACT_NULLABLE_STRING),
        Field("RebalanceTimeoutMs", INT32),
        Field("ServerAssignor", COMPACT_NULLABLE_STRING),
        Field("ClientAssignors", CompactNullable(ASSIGNORS)),
        Field("ConnectorsAndTasks", NULLABLE_CONNECTORS_AND_TASKS),
    ),
)

RESPONSE: Final = Struct(
    "ConnectGroupHeartbeatResponse",
    ConnectGroupHeartbeatResponse,
    (
        Field("ThrottleTimeMs", INT32),
        Field("ErrorCode", INT16),
        Field("ErrorMessage", COMPACT_NULLABLE_STRING),
        Field("MemberEpoch", INT32),
        Field("HeartbeatIntervalMs", INT32),
        Field(
            "Assignment",
            NullableStruct(
                Struct(
                    "Assignment",
                    HeartbeatAssignment,
                    (
                        Field("Error", INT8),
                        Field("ConnectorsAndTasks", CONNECTORS_AND_TASKS),
                        Field("Version", INT16),
                        Field("Metadata", COMPACT_BYTES),
                    ),
                    (TaggedField(0, Field("AssignmentEpoch", INT32), 0),),
                )
            ),
        ),
    ),
    (TaggedField(0, Field("SessionTimeoutMs", INT32), -1),),
)
