"""``ConnectGroupInstallAssignment``: the chosen member installs the assignment that it has computed."""

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
class InstalledMember:
    """The target of one member.

    :param version: the version of ``metadata``. It is an int32 here, but must fit into an int16, as in all other
        schemas
    :param metadata: what the assignor sends this member
    """

    member_id: MemberId
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""


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

    group_id: str
    member_id: MemberId
    member_epoch: MemberEpoch
    group_epoch: GroupEpoch
    error: int = 0
    members: tuple[InstalledMember, ...] = ()
    delayed: tuple[InstalledMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentResponse:
    """Says whether the assignment was installed.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none, the assignment is the target now
    """

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


_MEMBER: Final = Struct(
    "Member",
    InstalledMember,
    (
        Field("MemberId", COMPACT_STRING),
        Field("ConnectorsAndTasks", CONNECTORS_AND_TASKS),
        Field("Version", INT32),
        Field("Metadata", COMPACT_BYTES),
    ),
)

REQUEST: Final = Struct(
    "ConnectGroupInstallAssignmentRequest",
    ConnectGroupInstallAssignmentRequest,
    (
        Field("GroupId", COMPACT_STRING),
        Field("MemberId", COMPACT_STRING),
        Field("MemberEpoch", INT32),
        Field("GroupEpoch", INT32),
        Field("Error", INT8),
        Field("Members", CompactArrayOf(_MEMBER)),
    ),
    (TaggedField(0, Field("Delayed", CompactArrayOf(_MEMBER)), ()),),
)

RESPONSE: Final = Struct(
    "ConnectGroupInstallAssignmentResponse",
    ConnectGroupInstallAssignmentResponse,
    (Field("ThrottleTimeMs", INT32), Field("ErrorCode", INT16), Field("ErrorMessage", COMPACT_NULLABLE_STRING)),
)
