"""The keys of a coordinator's records. The version of a key is the type of its record.

Versions 0 to 2 are those of Kafka's classic groups, so these begin with 3. Keys are not flexible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow_provider.group.declarative.protocol.wire.encoding.types import STRING
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
