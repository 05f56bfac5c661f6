"""Client side assignors, which members of declarative groups run: eager and cooperative, as in Kafka Connect."""

from __future__ import annotations

from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.group.declarative.assignors.client_assignor import ClientSideAssignor
from airflow_provider.group.declarative.assignors.cooperative import CooperativeAssignor
from airflow_provider.group.declarative.assignors.eager import EagerAssignor
from airflow_provider.values.model import ConnectProtocol

__all__ = ["CooperativeAssignor", "EagerAssignor", "assignors_offered"]


def assignors_offered(
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED, policy: Policy | None = None
) -> tuple[ClientSideAssignor, ...]:
    """The assignors that a worker with this ``connect.protocol`` offers, the preferred one first."""
    if protocol is ConnectProtocol.EAGER:
        return (EagerAssignor(),)
    return (CooperativeAssignor(policy=policy or Deferred()), EagerAssignor())
