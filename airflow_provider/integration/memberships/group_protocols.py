"""Chooses the group protocol by which a worker joins. This is the only place where it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from airflow_provider.assignment.policy import Policy
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.membership import GroupProtocol
from airflow_provider.values.model import ConnectProtocol


class GroupProtocolName(str, Enum):
    """The setting ``group.protocol``, by Kafka's names."""

    CLASSIC = "classic"
    """Kafka's own, with rounds: the brokers coordinate, and a worker leads."""
    CONNECT = "connect"
    """Declarative groups: each worker moves to its own target. A coordinator, which is reached over topics, waits only
    for the workers that have to give something up.
    """


class Coordinators(str, Enum):
    """Which processes may coordinate declarative groups, as far as a worker decides it."""

    MEMBERS = "members"
    """Those that hold workers, including this one."""
    DEDICATED = "dedicated"
    """Only those that do nothing else, so this one does not."""


def offered_by_default(name: GroupProtocolName) -> ConnectProtocol:
    """What a worker offers that has not said it. Where there are rounds, tasks are learned before they move: a stream
    then stands still for a stop and a start, and not for Spark's start. Declarative groups learn no tasks.
    """
    return ConnectProtocol.EXTENSIBLE if name is GroupProtocolName.CLASSIC else ConnectProtocol.SESSIONED


def check_goes_together(name: GroupProtocolName, member: MemberSettings) -> None:
    """Check that the settings exist in the protocol.

    :raises ValueError: naming the parameter, if one does not
    """
    if name is GroupProtocolName.CONNECT and member.protocol is ConnectProtocol.EXTENSIBLE:
        raise ValueError(
            "group_protocol: 'connect' learns no tasks, so connect_protocol='extensible' can't be used with it: use"
            " 'sessioned', or group_protocol='classic'"
        )


def group_protocol(
    name: GroupProtocolName,
    member: MemberSettings,
    policy: Policy,
    coordinators: Coordinators = Coordinators.MEMBERS,
    returns_ms: int | None = None,
) -> GroupProtocol:
    """Make the group protocol, as a worker has configured it.

    :param policy: how an imbalance is resolved while this worker assigns
    :param coordinators: of a declarative group; the brokers coordinate a classic one
    :param returns_ms: in how many milliseconds at most the worker returns if its process ends; None: unknown
    """
    return _MAKE[name](member, policy, coordinators, returns_ms)


# DAG files import this module, so Kafka's clients, which both protocols use, are imported only when they are needed.


def _classic(
    member: MemberSettings, policy: Policy, _coordinators: Coordinators, _returns_ms: int | None
) -> GroupProtocol:
    from airflow_provider.group.live.classic.classic_membership import ClassicProtocol
    from airflow_provider.integration.memberships.declarative_workers import refuse_beside_declarative_workers

    return ClassicProtocol(member, policy, look_before=refuse_beside_declarative_workers)


def _connect(
    member: MemberSettings, policy: Policy, coordinators: Coordinators, returns_ms: int | None
) -> GroupProtocol:
    """Unless only dedicated processes coordinate, this one may, too, with the session timeout and heartbeat interval of
    its first worker.
    """
    from airflow_provider.group.declarative.assignors import assignors_offered
    from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
    from airflow_provider.group.declarative.member.settings import DeclarativeSettings
    from airflow_provider.group.declarative.server.candidates import candidate
    from airflow_provider.group.live.declarative.declarative_membership import DeclarativeProtocol, leaves_it_to_others
    from airflow_provider.integration.stats.shard_metering import shard_meter

    coordinator = CoordinatorSettings(
        session_timeout_ms=member.session_timeout_ms, heartbeat_interval_ms=member.heartbeat_interval_ms
    )
    settings = DeclarativeSettings(
        group_id=member.group_id,
        worker=member.worker,
        url=member.url,
        session_timeout_ms=member.session_timeout_ms,
        heartbeat_interval_ms=member.heartbeat_interval_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        lease_margin_ms=member.lease_margin_ms,
    )
    return DeclarativeProtocol(
        settings,
        assignors_offered(member.protocol, policy),
        member.slots or 0,
        returns_ms=returns_ms,
        coordinating=(
            leaves_it_to_others
            if coordinators is Coordinators.DEDICATED
            else lambda kafka: candidate(kafka, coordinator, shard_meter())
        ),
    )


_Make = Callable[[MemberSettings, Policy, Coordinators, int | None], GroupProtocol]
_MAKE: Final[Mapping[GroupProtocolName, _Make]] = MappingProxyType(
    {GroupProtocolName.CLASSIC: _classic, GroupProtocolName.CONNECT: _connect}
)
