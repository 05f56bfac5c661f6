"""The values of the records that say who is in a group, what it has to do, and how it is configured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.declarative.model import GroupEpoch
from airflow_provider.declarative.wire.parts import ASSIGNORS, CONNECTORS_AND_TASKS, Assignor, ConnectorsAndTasks
from airflow_provider.declarative.wire.structs import Field, Struct, TaggedField
from airflow_provider.declarative.wire.types import COMPACT_NULLABLE_STRING, COMPACT_STRING, INT32, CompactArrayOf


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupMetadataValue:
    """A group: it is there, and how often what it is made of has changed."""

    epoch: GroupEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupConnectorsTasksMetadataValue:
    """What a group has to do.

    :param epoch: of the group, when this changed last
    :param connectors_tasks: what is configured
    """

    epoch: GroupEpoch
    connectors_tasks: tuple[ConnectorsAndTasks, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupMemberMetadataValue:
    """What a member has said of itself.

    The schema was made from that of a consumer. Subscriptions have stayed in it, which a worker does not have: they are
    empty. It has no place for two things that a member says only once, and that the next coordinator must know: they
    are tagged fields.

    :param group_epoch: of the group, when this changed last
    :param instance_id: empty: none. The schema allows no null here, and no instance id is empty
    :param client_id: of its Kafka client, for people
    :param client_host: where that is, for people
    :param assignors: what it can run itself, the preferred one first
    :param rebalance_timeout_ms: how long it may take to stop what it is asked to stop; -1: not known
    :param server_assignor: the coordinator's assignor that it asks for
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
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerGroupConfigurationValue:
    """The settings of a group that are not the coordinator's defaults."""

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
