"""``ConnectGroupAlterConfigs``: sets and shows the settings of one group.

The proposal has a record for these settings, but no request. Brokers get the settings of their own groups by
IncrementalAlterConfigs (KIP-339, KIP-848); the fields here have the same names and meanings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, Struct, TaggedField
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactArrayOf,
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

    name: str
    config_operation: int = ConfigOperation.SET
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsRequest:
    """Asks to make all of these changes, or none. Without changes it only asks for the present settings.

    :param group_id: not empty; the group need not exist yet
    """

    group_id: str
    configs: tuple[AlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One setting of a group, and its present value.

    :param value: None: the default is that of the members' assignors, which the coordinator does not know
    """

    name: str
    value: str | None
    config_source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsResponse:
    """The settings of the group after the request.

    :param throttle_time_ms: how long the request was throttled because of a quota
    :param error_code: Kafka's error code; 0: none
    :param configs: all settings. A tagged field, because a coordinator that does not know this API answers without it
    """

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    configs: tuple[GroupConfig, ...] = ()


REQUEST: Final = Struct(
    "ConnectGroupAlterConfigsRequest",
    ConnectGroupAlterConfigsRequest,
    (
        Field("GroupId", COMPACT_STRING),
        Field(
            "Configs",
            CompactArrayOf(
                Struct(
                    "AlterableConfig",
                    AlterableConfig,
                    (
                        Field("Name", COMPACT_STRING),
                        Field("ConfigOperation", INT8),
                        Field("Value", COMPACT_NULLABLE_STRING),
                    ),
                )
            ),
        ),
    ),
)

RESPONSE: Final = Struct(
    "ConnectGroupAlterConfigsResponse",
    ConnectGroupAlterConfigsResponse,
    (Field("ThrottleTimeMs", INT32), Field("ErrorCode", INT16), Field("ErrorMessage", COMPACT_NULLABLE_STRING)),
    (
        TaggedField(
            0,
            Field(
                "Configs",
                CompactArrayOf(
                    Struct(
                        "GroupConfig",
                        GroupConfig,
                        (
                            Field("Name", COMPACT_STRING),
                            Field("Value", COMPACT_NULLABLE_STRING),
                            Field("ConfigSource", INT8),
                        ),
                    )
                ),
            ),
            (),
        ),
    ),
)
