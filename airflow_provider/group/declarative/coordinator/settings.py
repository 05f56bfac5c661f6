"""The settings of a coordinator, and those of one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfiguration:
    """The settings that people have given one group, in milliseconds. None: the coordinator's default.

    :param session_timeout_ms: a member that is silent for so long is removed
    :param heartbeat_interval_ms: the time between two heartbeats of a member, at most three tenths of its session
    :param scheduled_rebalance_max_delay_ms: the scheduled delay: how long the tasks of a lost member wait for it. The
        assignors apply it
    :raises ValueError: a time is out of range
    """

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    scheduled_rebalance_max_delay_ms: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (
            ("session_timeout_ms", self.session_timeout_ms, 1),
            ("heartbeat_interval_ms", self.heartbeat_interval_ms, 1),
            ("scheduled_rebalance_max_delay_ms", self.scheduled_rebalance_max_delay_ms, 0),
        ):
            if value is not None and not least <= value < 2**31:
                raise ValueError(f"{name} is {value}: set it to {least} ms or more, and to less than 2^31 ms")


DEFAULTS = GroupConfiguration()

SESSION_TIMEOUT: Final = "connect.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "connect.heartbeat.interval.ms"
MAX_DELAY: Final = "scheduled.rebalance.max.delay.ms"
CONFIG_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        SESSION_TIMEOUT: "session_timeout_ms",
        HEARTBEAT_INTERVAL: "heartbeat_interval_ms",
        MAX_DELAY: "scheduled_rebalance_max_delay_ms",
    }
)
"""The settings that people may give a group, and the attributes of :class:`GroupConfiguration` for them. The first two
are named after Kafka's settings of consumer groups, the last one is Connect's.
"""

DEFAULT_SESSION_MS: Final = 60_000
"""The default session, in milliseconds. It outlasts the 45 s after which brokers, by default, notice that a coordinator
has died.
"""


class MigrationPolicy(str, Enum):
    """The setting ``connect.migration.policy``, after Kafka's ``group.consumer.migration.policy``."""

    DISABLED = "disabled"
    """A declarative group begins only when the classic group of that name has no workers."""
    BIDIRECTIONAL = "bidirectional"
    """Each group has a bridge: one member of the classic group of that name, which stands for all declarative members.
    They run the tasks that classic rounds give to the bridge, in the epochs of these rounds.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The settings of a coordinator for all its groups. All coordinators of a Kafka cluster must have the same.

    :param enabled: the feature flag. If off, each request is answered with UNSUPPORTED_VERSION, as by a broker that has
        KIP-848's consumer protocol switched off
    :param session_timeout_ms: a member that is silent for so long is removed
    :param heartbeat_interval_ms: the time between two heartbeats of a member; a held heartbeat is answered after it
    :param migration: whether a group may have classic and declarative workers at the same time
    """

    enabled: bool = True
    session_timeout_ms: int = DEFAULT_SESSION_MS
    heartbeat_interval_ms: int = 3_000
    migration: MigrationPolicy = MigrationPolicy.DISABLED
