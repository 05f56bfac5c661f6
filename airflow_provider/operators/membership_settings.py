"""A worker's settings as a member of its group, from the operator's parameters."""

from __future__ import annotations

from typing import Final

from airflow_provider.assignment.learners.model import LearnedRule, Limits
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.integration.parameters import TimeSpan, choice, milliseconds
from airflow_provider.values.model import ConnectProtocol, WorkerId

_LEASE_MARGIN_MS: Final = 2_000


def membership_settings(
    *,
    group: str,
    worker: str,
    url: str,
    connect_protocol: str,
    learned: str,
    limits: Limits,
    session_timeout: TimeSpan,
    heartbeat_interval: TimeSpan,
    rebalance_timeout: TimeSpan,
) -> MemberSettings:
    """:raises ValueError: naming the parameter that is wrong, or that does not go together with another one"""
    session_ms = milliseconds("session_timeout", session_timeout, least_ms=1)
    heartbeat_ms = milliseconds("heartbeat_interval", heartbeat_interval, least_ms=1)
    rebalance_ms = milliseconds("rebalance_timeout", rebalance_timeout, least_ms=1)
    margin_ms = min(_LEASE_MARGIN_MS, session_ms // 4)
    if heartbeat_ms + margin_ms >= session_ms:
        raise ValueError(
            f"session_timeout: {session_timeout!r} must be longer than heartbeat_interval ({heartbeat_interval!r}) and"
            f" {margin_ms} ms for stopping tasks in time"
        )
    if rebalance_ms < session_ms:
        raise ValueError(
            f"rebalance_timeout: {rebalance_timeout!r} must be at least session_timeout ({session_timeout!r}): a worker"
            " that hears nothing keeps its tasks for that long"
        )
    return MemberSettings(
        group_id=group,
        worker=WorkerId(worker),
        url=url,
        protocol=choice("connect_protocol", connect_protocol, ConnectProtocol),
        learned=choice("learned", learned, LearnedRule),
        limits=limits,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        fast_heartbeat_ms=min(50, heartbeat_ms),
        rebalance_timeout_ms=rebalance_ms,
        lease_margin_ms=margin_ms,
    )
