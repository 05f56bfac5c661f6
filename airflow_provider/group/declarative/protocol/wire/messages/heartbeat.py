"""``ConnectGroupHeartbeat``: a member reports its state, and is told its assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    Bytes,
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
