"""``ConnectGroupPrepareAssignment``: the chosen member asks for the state from which it computes an assignment."""

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


_MEMBERS: Final = CompactArrayOf(struct_of(PreparedMember))


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
    members: Annotated[tuple[PreparedMember, ...], _MEMBERS] = ()
    connectors_tasks: Annotated[Units, Tag(0)] = ()
    scheduled_rebalance_max_delay_ms: Annotated[Int32, Tag(1)] = -1
    departed: Annotated[tuple[PreparedMember, ...], _MEMBERS, Tag(2)] = ()
