"""The settings of a membership in the classic protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.assignment.learners.model import Limits
from airflow_provider.group.machine.settings import CommonSettings, by_a_slower_clock
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings(CommonSettings):
    """The settings of one membership.

    :param protocol: which versions of the embedded protocol to offer (``connect.protocol``)
    :param slots: how many tasks the worker runs at the same time; None: not known
    :param learned: when this member stops tasks of its own that others learn
    :param limits: how much is learned at the same time while this member leads, and from which progress on it is ready
    :param session_timeout_ms: after this time without a heartbeat the coordinator removes the member
    :param heartbeat_interval_ms: time between heartbeats in a stable group
    :param fast_heartbeat_ms: time to the first heartbeat after a rebalance. Each further interval is half as long
        again, up to ``heartbeat_interval_ms``, so that a second rebalance is heard of soon
    :param rebalance_timeout_ms: how long the coordinator waits for members to join a rebalance; at least a session,
        because a member may not hear of a rebalance for that long
    """

    protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    slots: int | None = None
    learned: LearnedRule = LearnedRule.WHEN_READY
    limits: Limits = field(default_factory=Limits)
    fast_heartbeat_ms: int = 50

    @property
    def session_lease_ms(self) -> int:
        """The session timeout on the member's own clock, shortened as clocks may differ in speed."""
        return by_a_slower_clock(self.session_timeout_ms)

    @property
    def rebalance_lease_ms(self) -> int:
        """The rebalance timeout, shortened likewise."""
        return by_a_slower_clock(self.rebalance_timeout_ms)

    @property
    def heartbeat_timeout_ms(self) -> int:
        """How long to wait for the answer to a heartbeat: so long that there is time for another one, over a new
        connection, before the lease is about to end.
        """
        return (self.session_timeout_ms - self.lease_margin_ms) // 2

    @property
    def ready_from(self) -> float:
        return self.limits.ready_from

    def __post_init__(self) -> None:
        CommonSettings.__post_init__(self)
        if not 0 < self.fast_heartbeat_ms <= self.heartbeat_interval_ms:
            raise ValueError(
                f"fast_heartbeat_ms={self.fast_heartbeat_ms} must be positive and at most"
                f" heartbeat_interval_ms={self.heartbeat_interval_ms}"
            )
        if self.heartbeat_interval_ms + self.lease_margin_ms >= self.session_lease_ms:
            raise ValueError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} plus lease_margin_ms={self.lease_margin_ms} must"
                f" be less than session_timeout_ms={self.session_timeout_ms}: otherwise every heartbeat comes too late"
            )
        if self.rebalance_timeout_ms < self.session_timeout_ms:
            raise ValueError(
                f"rebalance_timeout_ms={self.rebalance_timeout_ms} must be at least"
                f" session_timeout_ms={self.session_timeout_ms}: a rebalance that ends sooner gives away tasks that"
                " a worker still runs because it has not heard of it"
            )
