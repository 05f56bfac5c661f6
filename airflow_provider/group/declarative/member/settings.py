"""The settings of a membership in a declarative group."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.group.machine.settings import CommonSettings, by_a_slower_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarativeSettings(CommonSettings):
    """The settings of one membership. Session and heartbeat interval are granted by the coordinator with each answer;
    those given here only hold until its first answer.

    :param session_timeout_ms: the session until the coordinator has answered
    :param heartbeat_interval_ms: the time between heartbeats until the coordinator has answered
    :param rebalance_timeout_ms: how long the coordinator waits for this member to stop revoked tasks
    """

    @property
    def ready_from(self) -> float:
        """Always 1: no tasks are learned in a declarative group."""
        return 1.0

    def __post_init__(self) -> None:
        CommonSettings.__post_init__(self)
        for name in ("heartbeat_interval_ms", "rebalance_timeout_ms", "retry_backoff_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        if self.lease_margin_ms >= by_a_slower_clock(self.session_timeout_ms):
            raise ValueError(
                f"lease_margin_ms={self.lease_margin_ms} must be less than"
                f" session_timeout_ms={self.session_timeout_ms}: otherwise no task could ever be started"
            )
