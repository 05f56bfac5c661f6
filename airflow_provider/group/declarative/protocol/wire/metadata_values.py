"""The values of the records with a group's epoch, its configured tasks, its members and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    CompactArrayOf,
    Int32,
    NullableText,
    Text,
)
from airflow_provider.group.declarative.protocol.wire.parts import ASSIGNORS, Assignor, Units


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
