"""``ConnectGroupAlterConfigs``: sets and shows the settings of one group.

The proposal has a record for these settings, but no request. Brokers get the settings of their own groups by
IncrementalAlterConfigs (KIP-339, KIP-848); the fields here have the same names and meanings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    CompactArrayOf,
    Int8,
    Int16,
    Int32,
    NullableText,
    Text,
)


class ConfigOperation(IntEnum):
    """What to do with a setting; the numbers are Kafka's (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    """Back to the default."""


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are Kafka's (``DescribeConfigsResponse.ConfigSource``)."""

    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """One change of a setting.

    :param value: None if it is deleted
    """

    name: Text
    config_operation: Int8 = ConfigOperation.SET
    value: NullableText = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsRequest:
    """Asks to make all of these changes, or none. Without changes it only asks for the present settings.

    :param group_id: not empty; the group need not exist yet
    """

    group_id: Text
    configs: Annotated[tuple[AlterableConfig, ...], CompactArrayOf(struct_of(AlterableConfig))] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One setting of a group, and its present value.

    :param value: None: the default is that of the members' assignors, which the coordinator does not know
    """

    name: Text
    value: NullableText
    config_source: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsResponse:
    """The settings of the group after the request.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none
    :param configs: all settings. A tagged field, because a coordinator that does not know this API answers without it
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableText = None
    configs: Annotated[tuple[GroupConfig, ...], CompactArrayOf(struct_of(GroupConfig)), Tag(0)] = ()
