"""The keys of a coordinator's records. The version of a key is the type of its record.

Versions 0 to 2 are those of Kafka's classic groups, so these begin with 3. Keys are not flexible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, PlainStruct
from airflow_provider.group.declarative.protocol.wire.encoding.types import STRING
from airflow_provider.values.model import MemberId


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupMetadataKey:
    """Version 3: a group's epoch."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupConnectorsTasksMetadataKey:
    """Version 4: the configured tasks of a group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupMemberMetadataKey:
    """Version 5: what a member has said of itself."""

    group_id: str
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupTargetAssignmentKey:
    """Version 6: the target assignment of a group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupCurrentMemberAssignmentKey:
    """Version 7: the current assignment of a member."""

    group_id: str
    member_id: MemberId


@dataclass(frozen=True, slots=True)
class ConnectWorkerGroupConfigurationKey:
    """Version 8: the settings that people have given a group."""

    group_id: str


RecordKey = (
    ConnectWorkerGroupMetadataKey
    | ConnectWorkerGroupConnectorsTasksMetadataKey
    | ConnectWorkerGroupMemberMetadataKey
    | ConnectWorkerGroupTargetAssignmentKey
    | ConnectWorkerGroupCurrentMemberAssignmentKey
    | ConnectWorkerGroupConfigurationKey
)

_GROUP: Final = (Field("GroupId", STRING),)
_MEMBER: Final = (*_GROUP, Field("MemberId", STRING))


def _key(make: type[RecordKey], fields: tuple[Field, ...]) -> PlainStruct:
    return PlainStruct(make.__name__, make, fields)


GROUP_METADATA_KEY: Final = _key(ConnectWorkerGroupMetadataKey, _GROUP)
CONNECTORS_TASKS_METADATA_KEY: Final = _key(ConnectWorkerGroupConnectorsTasksMetadataKey, _GROUP)
MEMBER_METADATA_KEY: Final = _key(ConnectWorkerGroupMemberMetadataKey, _MEMBER)
TARGET_ASSIGNMENT_KEY: Final = _key(ConnectWorkerGroupTargetAssignmentKey, _GROUP)
"""The schema says that ``GroupId`` is of version 5, which this key does not have. It is taken as 6."""
CURRENT_MEMBER_ASSIGNMENT_KEY: Final = _key(ConnectWorkerGroupCurrentMemberAssignmentKey, _MEMBER)
CONFIGURATION_KEY: Final = _key(ConnectWorkerGroupConfigurationKey, _GROUP)
