"""Watches streaming queries on one server from an event loop, without blocking it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from airflow_provider.spark.connect.ending import end_session
from airflow_provider.spark.connect.grpc_calls.calls import NotThereError, ServerCalls
from airflow_provider.spark.connect.grpc_calls.messages import Caller, RunningQuery
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.polling import Listener, Watched
from airflow_provider.spark.connect.query_watch.shared_server import SERVERS, SharedServer
from airflow_provider.spark.connect.query_watch.watch_events import QueryEnded, QueryLost, QueryStopped, WatchEvent
from airflow_provider.spark.connect.server import ConnectSettings


class QueryWatch:
    """The queries that one membership watches on a server. All memberships of a process that use the same server as the
    same user share a connection. Belongs to one event loop, and needs no Spark.

    :param user_agent: shown by the server
    :param hear: called with each event, in the event loop
    :param tell_every_s: report a query's progress at most this often, in seconds
    """

    def __init__(
        self,
        settings: ConnectSettings,
        user_agent: str,
        hear: Callable[[WatchEvent], None],
        *,
        tell_every_s: float = 30.0,
    ) -> None:
        self._settings = settings
        self._caller = Caller(user_id=settings.server.user_id, user_agent=user_agent)
        self._hear = hear
        self._tell_every_s = tell_every_s
        self._watched: dict[QueryHandle, Watched] = {}
        self._mine: tuple[SharedServer, Listener] | None = None

    @property
    def watched(self) -> frozenset[QueryHandle]:
        return frozenset(self._watched)

    def watch(self, handle: QueryHandle) -> None:
        """Report events of this query until it has ended or is lost.

        :raises ValueError: if the handle does not have the query's ids: :meth:`find` it first
        """
        if handle.query_id is None or handle.run_id is None:
            raise ValueError(
                f"the query in session {handle.session_id} cannot be watched, as its ids are not known: find it first"
            )
        if handle in self._watched:
            return
        if self._mine is None:
            server = SERVERS.take(self._settings)
            self._mine = server, Listener(ServerCalls(server.channel, self._caller), self._on_event, self._tell_every_s)
        server, listener = self._mine
        self._watched[handle] = server.polling.add(handle, RunningQuery(handle.query_id, handle.run_id), listener)

    def let_go(self, handle: QueryHandle) -> None:
        """Stop watching the query. It keeps running."""
        watched = self._watched.pop(handle, None)
        if watched is not None and self._mine is not None:
            self._mine[0].polling.remove(watched)

    async def stop(self, handle: QueryHandle, *, timeout_s: float) -> None:
        """Stop what runs in its session, and have the server refuse all later calls in it. This also works if the
        server has never had the session, so that a start that is still on its way fails. The query is no longer
        watched.

        :raises QueryNotStoppedError: if the server does not confirm that in time
        """
        self.let_go(handle)
        async with self._calls() as calls:
            await end_session(calls, handle, timeout_s=timeout_s)

    async def find(self, handle: QueryHandle) -> QueryHandle | None:
        """The query that runs in its session, whoever started it; None: there is none, but one may still be started.

        :raises UnansweredError: if there is no usable answer
        """
        async with self._calls() as calls:
            try:
                await calls.require_session(handle.session_id)
                running = await calls.running(handle.session_id)
            except NotThereError:
                return None
        same = [query for query in running if query.query_id == handle.query_id]
        for query in same or running:
            return replace(handle, query_id=query.query_id, run_id=query.run_id)
        return None

    async def close(self) -> None:
        """Stop watching. All queries keep running."""
        for handle in list(self._watched):
            self.let_go(handle)
        mine, self._mine = self._mine, None
        if mine is not None:
            await SERVERS.give_back(mine[0])

    def _on_event(self, event: WatchEvent) -> None:
        if isinstance(event, QueryEnded | QueryStopped | QueryLost):
            self._watched.pop(event.handle, None)
        self._hear(event)

    @contextlib.asynccontextmanager
    async def _calls(self) -> AsyncIterator[ServerCalls]:
        """:raises UnansweredError: if gRPC is not installed here"""
        server = SERVERS.take(self._settings)
        try:
            await server.open()
            yield ServerCalls(server.channel, self._caller)
        finally:
            await SERVERS.give_back(server)
