"""The values of the records with a group's epoch, its configured tasks, its members and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, Struct, TaggedField
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT32,
    CompactArrayOf,
)
from airflow_provider.group.declarative.protocol.wire.parts import (
    ASSIGNORS,
    CONNECTORS_AND_TASKS,
    Assignor,
    ConnectorsAndTasks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupMetadataValue:
    """A group and its epoch."""

    epoch: GroupEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupConnectorsTasksMetadataValue:
    """The configured tasks of a group.

    :param epoch: the group epoch in which they changed last
    """

    epoch: GroupEpoch
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()


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

    group_epoch: GroupEpoch
    instance_id: str = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    assignors: tuple[Assignor, ...] = ()
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One setting of a group."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupConfigurationValue:
    """The settings that people have given a group."""

    configurations: tuple[Configuration, ...] = ()


GROUP_METADATA_VALUE: Final = Struct(
    "ConnectWorkerGroupMetadataValue", ConnectWorkerGroupMetadataValue, (Field("Epoch", INT32),)
)

CONNECTORS_TASKS_METADATA_VALUE: Final = Struct(
    "ConnectWorkerGroupConnectorsTasksMetadataValue",
    ConnectWorkerGroupConnectorsTasksMetadataValue,
    (Field("Epoch", INT32), Field("ConnectorsTasks", CONNECTORS_AND_TASKS)),
)

MEMBER_METADATA_VALUE: Final = Struct(
    "ConnectWorkerGroupMemberMetadataValue",
    ConnectWorkerGroupMemberMetadataValue,
    (
        Field("GroupEpoch", INT32),
        Field("InstanceId", COMPACT_STRING),
        Field("ClientId", COMPACT_STRING),
        Field("ClientHost", COMPACT_STRING),
        Field("SubscribedTopicNames", CompactArrayOf(COMPACT_STRING)),
        Field("SubscribedTopicRegex", COMPACT_STRING),
        Field("Assignors", ASSIGNORS),
    ),
    (
        TaggedField(0, Field("RebalanceTimeoutMs", INT32), -1),
        TaggedField(1, Field("ServerAssignor", COMPACT_NULLABLE_STRING), None),
    ),
)

CONFIGURATION_VALUE: Final = Struct(
    "ConnectWorkerGroupConfigurationValue",
    ConnectWorkerGroupConfigurationValue,
    (
        Field(
            "Configurations",
            CompactArrayOf(
                Struct("Configuration", Configuration, (Field("Name", COMPACT_STRING), Field("Value", COMPACT_STRING)))
            ),
        ),
    ),
)
