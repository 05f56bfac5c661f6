"""``ConnectGroupAlterConfigs``: how a group is coordinated is set by people, and shown to them.

The proposal has a record for what is set, and nobody who sets it. Of the groups that it coordinates itself, a broker is
asked by IncrementalAlterConfigs (KIP-339, KIP-848): fields and their meanings are of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from airflow_provider.declarative.wire.structs import Field, Struct, TaggedField
from airflow_provider.declarative.wire.types import (
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    CompactArrayOf,
)


class ConfigOperation(IntEnum):
    """What becomes of a configuration, as Kafka numbers that (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    """It has the default again."""


class ConfigSource(IntEnum):
    """Where a value is from, as Kafka numbers that (``DescribeConfigsResponse.ConfigSource``)."""

    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """:param value: None where it is deleted"""

    name: str
    config_operation: int = ConfigOperation.SET
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsRequest:
    """Asks for all of these changes, or none; with none it asks what is set. What is not named stays as it is.

    :param group_id: not empty; the group need not exist yet
    """

    group_id: str
    configs: tuple[AlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One configuration of a group, as it is now.

    :param value: None: the coordinator does not know the default, as it is that of the members' assignors
    """

    name: str
    value: str | None
    config_source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupAlterConfigsResponse:
    """What holds now.

    :param throttle_time_ms: how long the request was held back for a quota
    :param error_code: Kafka's; 0 is none
    :param configs: all that there are. A tagged field: a coordinator that does not know this API answers without it
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
