"""``ConnectGroupInstallAssignment``: the chosen member installs the assignment that it has computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    Bytes,
    CompactArrayOf,
    Int8,
    Int16,
    Int32,
    NullableText,
    Text,
)
from airflow_provider.group.declarative.protocol.wire.parts import Units
from airflow_provider.values.model import MemberId


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


_MEMBERS: Final = CompactArrayOf(struct_of(InstalledMember))


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
    members: Annotated[tuple[InstalledMember, ...], _MEMBERS] = ()
    delayed: Annotated[tuple[InstalledMember, ...], _MEMBERS, Tag(0)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentResponse:
    """Says whether the assignment was installed.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none, the assignment is the target now
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableText = None
