"""The keys and the values of a coordinator's records. Each type of record has a line in :data:`RECORD_TYPES`.

The version of a key is the type of its record. Versions 0 to 2 are those of Kafka's classic groups, so these begin with
3. Keys are not flexible, values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import (
    PlainStruct,
    Struct,
    Tag,
    plain_struct_of,
    struct_of,
)
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    STRING,
    Bytes,
    CompactArrayOf,
    Int8,
    Int16,
    Int32,
    NullableStruct,
    NullableText,
    Text,
)
from airflow_provider.group.declarative.protocol.wire.parts import ASSIGNORS, Assignor, Units
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupMetadataKey:
    """Version 3: a group's epoch."""

    group_id: Annotated[str, STRING]


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupConnectorsTasksMetadataKey:
    """Version 4: the configured tasks of a group."""

    group_id: Annotated[str, STRING]


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupMemberMetadataKey:
    """Version 5: what a member has said of itself."""

    group_id: Annotated[str, STRING]
    member_id: Annotated[MemberId, STRING]


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupTargetAssignmentKey:
    """Version 6: the target assignment of a group. In the schema, ``GroupId`` is of version 5, which this key lacks."""

    group_id: Annotated[str, STRING]


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupCurrentMemberAssignmentKey:
    """Version 7: the current assignment of a member."""

    group_id: Annotated[str, STRING]
    member_id: Annotated[MemberId, STRING]


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupConfigurationKey:
    """Version 8: the settings that people have given a group."""

    group_id: Annotated[str, STRING]


RecordKey = (
    ConnectWorkerGroupMetadataKey
    | ConnectWorkerGroupConnectorsTasksMetadataKey
    | ConnectWorkerGroupMemberMetadataKey
    | ConnectWorkerGroupTargetAssignmentKey
    | ConnectWorkerGroupCurrentMemberAssignmentKey
    | ConnectWorkerGroupConfigurationKey
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupMetadataValue:
    """A group and its epoch."""

    epoch: Annotated[GroupEpoch, INT32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupConnectorsTasksMetadataValue:
    """The configured tasks of a group.

    :param epoch: the group epoch in which they changed last
    """

    epoch: Annotated[GroupEpoch, INT32]
    connectors_tasks: Units = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupMemberMetadataValue:
    """What a member has said of itself.

    The schema is derived from that of a consumer, and still has its subscriptions; they are empty, because a worker has
    none. It has no fields for the rebalance timeout and the server side assignor, which a member says only once and the
    next coordinator must know: these are tagged fields.

    :param group_epoch: the group epoch in which this changed last
    :param instance_id: empty: none. The schema allows no null here, and no instance id is empty
    :param client_id: the client id of its Kafka client, for people
    :param client_host: the host of that client, for people
    :param assignors: the assignors that it can run itself, the preferred one first
    :param rebalance_timeout_ms: how long it may take to stop revoked tasks; -1: not known
    :param server_assignor: the server side assignor that it asks for; None: coordinators here have none
    """

    group_epoch: Annotated[GroupEpoch, INT32]
    instance_id: Text = ""
    client_id: Text = ""
    client_host: Text = ""
    subscribed_topic_names: Annotated[tuple[str, ...], CompactArrayOf(COMPACT_STRING)] = ()
    subscribed_topic_regex: Text = ""
    assignors: Annotated[tuple[Assignor, ...], ASSIGNORS] = ()
    rebalance_timeout_ms: Annotated[Int32, Tag(0)] = -1
    server_assignor: Annotated[NullableText, Tag(1)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One setting of a group."""

    name: Text
    value: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupConfigurationValue:
    """The settings that people have given a group."""

    configurations: Annotated[tuple[Configuration, ...], CompactArrayOf(struct_of(Configuration))] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMember:
    """The target of one member.

    :param error: the assignor's error for this member; 0: none
    :param version: the version of ``metadata``
    :param metadata: what the assignor sends this member
    """

    member_id: Annotated[MemberId, COMPACT_STRING]
    error: Int8 = 0
    connectors_tasks: Units = ()
    version: Int16 = 0
    metadata: Bytes = b""


_MEMBERS: Final = CompactArrayOf(struct_of(TargetMember))
_LAST_SAID: Final = NullableStruct(struct_of(ConnectWorkerGroupMemberMetadataValue))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupTargetAssignmentValue:
    """The target assignment. In the proposal, the record is called like this class, its schema
    GroupTargetAssignmentValue.

    :param assignment_epoch: the group epoch from which it was computed
    :param error: the error of an assignor that could not compute one; then the members keep their targets; 0: none. A
        tagged field, because it is in the proposal's data model but not in its schema
    :param delayed: tasks that wait for a member that has left, by that member; a tagged field, as in the request that
        installs it
    """

    assignment_epoch: Annotated[AssignmentEpoch, INT32]
    members: Annotated[tuple[TargetMember, ...], _MEMBERS] = ()
    error: Annotated[Int8, Tag(0)] = 0
    delayed: Annotated[tuple[TargetMember, ...], _MEMBERS, Tag(1)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupCurrentMemberAssignmentValue:
    """The current assignment of one member. In the proposal, the record is called like this class, its schema
    ConnectGroupCurrentMemberAssignmentValue.

    The schema has no fields for the member's state, its revoked tasks, and the epoch of the target from which its tasks
    were assigned. They are tagged fields, because the next coordinator must know them: otherwise it would give tasks to
    others that still run here. Kafka's ``ConsumerGroupCurrentMemberAssignmentValue`` has the first two.

    What a member says as it leaves is a tagged field here, and not in the record of the member: a release that does not
    know the field takes this record for that of a removed member, and the other one for that of a member.

    :param member_epoch: the epoch whose target it has reached
    :param error: the assignor's error for this member; 0: none
    :param connectors_tasks: the tasks that it may run
    :param version: the version of ``metadata``
    :param metadata: what the assignor sends this member
    :param state: 0: stable, 1: it has to stop tasks, 2: it waits for tasks of others; the numbers are those of Kafka's
        ``MemberState``
    :param connectors_tasks_pending_revocation: the tasks that it was asked to stop, and may still run
    :param assignment_epoch: the epoch of the target from which tasks were last assigned; 0: not known, because an
        earlier release wrote it
    :param last_said: what a former member had said of itself when it left, as the record of a member has it, without a
        group epoch; None: it is a member, or the next target does not depend on how it left
    """

    member_epoch: Annotated[MemberEpoch, INT32]
    error: Int8 = 0
    connectors_tasks: Units = ()
    version: Int16 = 0
    metadata: Bytes = b""
    state: Annotated[Int8, Tag(0)] = 0
    connectors_tasks_pending_revocation: Annotated[Units, Tag(1)] = ()
    assignment_epoch: Annotated[AssignmentEpoch, INT32, Tag(2)] = AssignmentEpoch(0)
    last_said: Annotated[ConnectWorkerGroupMemberMetadataValue | None, _LAST_SAID, Tag(3)] = None


RecordValue = (
    ConnectWorkerGroupMetadataValue
    | ConnectWorkerGroupConnectorsTasksMetadataValue
    | ConnectWorkerGroupMemberMetadataValue
    | ConnectWorkerGroupTargetAssignmentValue
    | ConnectWorkerGroupCurrentMemberAssignmentValue
    | ConnectWorkerGroupConfigurationValue
)


@dataclass(frozen=True, slots=True)
class RecordType:
    """The schemas of one type of record.

    :param version: the version of the key, which identifies the type
    """

    version: int
    key: PlainStruct
    value: Struct


def _type(version: int, key: type[RecordKey], value: type[RecordValue]) -> RecordType:
    return RecordType(version, plain_struct_of(key), struct_of(value))


RECORD_TYPES: Final = (
    _type(3, ConnectWorkerGroupMetadataKey, ConnectWorkerGroupMetadataValue),
    _type(4, ConnectWorkerGroupConnectorsTasksMetadataKey, ConnectWorkerGroupConnectorsTasksMetadataValue),
    _type(5, ConnectWorkerGroupMemberMetadataKey, ConnectWorkerGroupMemberMetadataValue),
    _type(6, ConnectWorkerGroupTargetAssignmentKey, ConnectWorkerGroupTargetAssignmentValue),
    _type(7, ConnectWorkerGroupCurrentMemberAssignmentKey, ConnectWorkerGroupCurrentMemberAssignmentValue),
    _type(8, ConnectWorkerGroupConfigurationKey, ConnectWorkerGroupConfigurationValue),
)
