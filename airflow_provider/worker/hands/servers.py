"""How a worker reaches the servers on which its detached queries run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import WatchEvent
from airflow_provider.spark.connect.server import NO_OTHERS, AllowedServers, ConnectServer, ConnectSettings
from airflow_provider.spark.runner import OnEvent
from airflow_provider.spark.runners.detached_queries import DetachedQueries, MakeQueries
from airflow_provider.spark.runners.watches import Watch
from airflow_provider.spark.submit.clusters import cluster_here
from airflow_provider.spark.submit.detached import Cluster

TokenOf = Callable[[QueryHandle], Awaitable[str]]
"""The token for the server of a handle; empty: none. The message of an exception says, without secrets, why it is not
known."""


async def no_token(handle: QueryHandle) -> str:  # noqa: ARG001
    """For workers that know no tokens."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers and clusters that a worker can use.

    :param own: the server on which it runs its tasks; None: it has a Spark of its own, or none
    :param token_of: gives the token for any server
    :param allowed: the other servers that may be called because a handle names them
    :param masters: the masters of Kubernetes that may be asked because a handle names them
    """

    own: ConnectServer | None
    token_of: TokenOf = no_token
    allowed: AllowedServers = NO_OTHERS
    masters: tuple[str, ...] = ()

    async def settings_of(self, handle: QueryHandle) -> ConnectSettings:
        """How to use the server of a handle.

        :raises ServerNotAllowedError: if it may not be called
        :raises Exception: if its token can't be read
        """
        if handle.server != self.own:
            self.allowed.check(handle.server)
        return ConnectSettings(server=handle.server, token=await self.token_of(handle))

    def cluster_of(self, name: str) -> Cluster:
        """:raises Exception: if it is not known here, or may not be asked; the message says why"""
        return cluster_here(name, self.masters)

    def queries(
        self,
        worker: str,
        *,
        group_id: str = "",
        tell_every_s: float,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
    ) -> MakeQueries:
        """:param group_id: empty: unknown, and it has no drivers"""

        def make_watch(settings: ConnectSettings, hear: Callable[[WatchEvent], None]) -> Watch:
            from airflow_provider.spark.connect.query_watch.watching import QueryWatch  # gRPC stands behind it

            return QueryWatch(settings, f"cospark/{quote(worker)}", hear, tell_every_s=tell_every_s)

        def make(on_event: OnEvent) -> DetachedQueries:
            return DetachedQueries(
                on_event,
                group_id=group_id,
                own=self.own,
                settings_of=self.settings_of,
                make_watch=make_watch,
                cluster_of=self.cluster_of,
                mask=mask,
                on_condition=on_condition,
            )

        return make
