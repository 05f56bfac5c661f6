"""``ConnectGroupInstallAssignment``: the member that has assigned hands in what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.declarative.model import GroupEpoch, MemberEpoch
from airflow_provider.declarative.wire.parts import CONNECTORS_AND_TASKS, ConnectorsAndTasks
from airflow_provider.declarative.wire.structs import Field, Struct, TaggedField
from airflow_provider.declarative.wire.types import (
    COMPACT_BYTES,
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactArrayOf,
)
from airflow_provider.protocol.model import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledMember:
    """What one member shall have.

    :param version: of ``metadata``; an int32 here and an int16 wherever else it stands, so not more than that holds
    :param metadata: what the assignor says to it
    """

    member_id: MemberId
    connectors_and_tasks: tuple[ConnectorsAndTasks, ...] = ()
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentRequest:
    """Asks for a new target assignment.

    By the proposal every task is assigned. While a delay runs, that can't be: tasks wait for the member that had them.
    They stand in a tagged field, so that what was forgotten is not taken for what waits.

    :param group_id: not empty
    :param member_id: not empty
    :param member_epoch: 0 or more
    :param group_epoch: that of the state which the assignment was made of
    :param error: the assignor's; 0 is none
    :param delayed: what nobody is given on purpose, by the member that had it and has left
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
    """Whether the assignment is the target now.

    :param throttle_time_ms: how long the request was held back for a quota
    :param error_code: Kafka's; 0 is none
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
