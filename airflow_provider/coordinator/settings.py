"""How a coordinator works, by default and in one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from airflow_provider.declarative.model import TargetAssignment

if TYPE_CHECKING:
    from airflow_provider.coordinator.installing import Prepared


class ServerAssignor(Protocol):
    """Computes a group's target where it is coordinated."""

    def compute(self, prepared: Prepared, now_ms: int, max_delay_ms: int | None = None) -> TargetAssignment:
        """The target of the epoch that was prepared.

        :param now_ms: wall clock, milliseconds since 1970
        :param max_delay_ms: how long the group has the tasks of a lost member wait for it; None: the assignor's default
        """

    def due_at_ms(self, target: TargetAssignment) -> int | None:
        """When another assignment is due, though nothing has changed; None: it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfiguration:
    """What people have set for one group. None: the coordinator's default.

    :param session_timeout_ms: a member that is silent for so long is removed
    :param heartbeat_interval_ms: between two heartbeats of a member; three tenths of its session, if it is more
    :param scheduled_rebalance_max_delay_ms: how long the tasks of a lost member wait for it; the assignors keep it
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
"""What people may set, and where a :class:`GroupConfiguration` has it. The first two are called as Kafka calls those of
its consumer groups, the last one as Connect does.
"""

DEFAULT_SESSION_MS: Final = 60_000
"""Brokers notice after 45 s that a coordinator has died, unless they have other settings: sessions outlast that."""


class MigrationPolicy(str, Enum):
    """The setting ``connect.migration.policy``, after Kafka's ``group.consumer.migration.policy``."""

    DISABLED = "disabled"
    """A declarative group begins when no classic worker of its name is there."""
    BIDIRECTIONAL = "bidirectional"
    """Each group has a bridge: one member of the classic group of its name, for all of its own. What classic workers
    give to it the declarative group runs, and in its epochs.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Of all groups of a coordinator. Those of one cluster have the same.

    :param enabled: the feature flag. Off: each request is answered with UNSUPPORTED_VERSION, as a broker does that has
        the consumer protocol of KIP-848 switched off
    :param session_timeout_ms: a member that is silent for so long is removed
    :param heartbeat_interval_ms: between two heartbeats of a member; a held heartbeat is answered after it
    :param server_assignors: by the names by which members ask for them
    :param migration: whether classic workers may be in a group beside declarative ones
    """

    enabled: bool = True
    session_timeout_ms: int = DEFAULT_SESSION_MS
    heartbeat_interval_ms: int = 3_000
    server_assignors: Mapping[str, ServerAssignor] = field(default_factory=dict)
    migration: MigrationPolicy = MigrationPolicy.DISABLED
