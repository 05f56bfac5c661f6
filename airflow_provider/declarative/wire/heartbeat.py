"""``ConnectGroupHeartbeat``: a member says how it is, and learns what it shall have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.declarative.model import AssignmentEpoch, MemberEpoch
from airflow_provider.declarative.wire.parts import (
    ASSIGNORS,
    CONNECTORS_AND_TASKS,
    NULLABLE_CONNECTORS_AND_TASKS,
    Assignor,
    ConnectorsAndTasks,
)
from airflow_provider.declarative.wire.structs import Field, Struct, TaggedField
from airflow_provider.declarative.wire.types import (
    COMPACT_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactNullable,
    NullableStruct,
)
from airflow_provider.protocol.model import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatRequest:
    """Everything when a member joins or after an error, later what has changed since the last heartbeat.

    :param group_id: not empty
    :param member_id: not empty
    :param member_epoch: 0 to join, -1 to leave
    :param instance_id: None: it has none, or not changed
    :param rebalance_timeout_ms: how long it may take to stop what it is asked to stop; -1: not changed
    :param server_assignor: None: not used, or not changed
    :param client_assignors: the preferred one first; None: not used, or not changed
    :param connectors_and_tasks: what it owns; None: not changed
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
    """What a member shall have.

    :param error: the assignor's; 0 is none
    :param version: of ``metadata``
    :param metadata: what the assignor says to it
    :param assignment_epoch: of the target that its tasks were last assigned from; 0: not said. A member that still
        waits for others keeps an epoch that may be below that of who had its new tasks before: what it writes of them
        must be of a later one. One that still stops tasks keeps the rest by an earlier target than the group's. A
        tagged field
    """

    error: int = 0
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""
    assignment_epoch: AssignmentEpoch = AssignmentEpoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatResponse:
    """How a heartbeat was answered.

    :param throttle_time_ms: how long the request was held back for a quota
    :param error_code: Kafka's; 0 is none
    :param heartbeat_interval_ms: when to send the next one
    :param assignment: None: nothing to say
    :param session_timeout_ms: how long the member is kept without another heartbeat, from when this one was sent. So
        long it may believe that its tasks are its own; -1: not said. A tagged field: the schema has no place for it
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
