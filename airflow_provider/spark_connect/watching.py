"""Watches streaming queries on one server from an event loop, which nothing here keeps waiting."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from airflow_provider.spark_connect.asking import NotThereError, Questions
from airflow_provider.spark_connect.ending import end_session
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.looks import Listener, Watched
from airflow_provider.spark_connect.messages import Caller, RunningQuery
from airflow_provider.spark_connect.news import QueryEnded, QueryLost, QueryNews, QueryStopped
from airflow_provider.spark_connect.server import ConnectSettings
from airflow_provider.spark_connect.shared_server import SERVERS, SharedServer


class QueryWatch:
    """What one membership has of a server: the queries that it watches there. All memberships of a process that use the
    same server as the same user share a connection. Belongs to one event loop; no Spark is needed for it.

    :param user_agent: who asks, for those who look at the server
    :param hear: called by the loop with what there is to tell
    :param tell_every_s: how often a query's progress is told at most, in seconds
    """

    def __init__(
        self,
        settings: ConnectSettings,
        user_agent: str,
        hear: Callable[[QueryNews], None],
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
        """Tell of this query, until it has ended or is lost.

        :raises ValueError: if it is not known which one it is: :meth:`find` it
        """
        if handle.query_id is None or handle.run_id is None:
            raise ValueError(
                f"the query in session {handle.session_id} cannot be watched, as its ids are not known: find it first"
            )
        if handle in self._watched:
            return
        if self._mine is None:
            server = SERVERS.take(self._settings)
            self._mine = server, Listener(Questions(server.line, self._caller), self._on_news, self._tell_every_s)
        server, listener = self._mine
        self._watched[handle] = server.looks.add(handle, RunningQuery(handle.query_id, handle.run_id), listener)

    def let_go(self, handle: QueryHandle) -> None:
        """Tell of it no more. It runs on."""
        watched = self._watched.pop(handle, None)
        if watched is not None and self._mine is not None:
            self._mine[0].looks.remove(watched)

    async def stop(self, handle: QueryHandle, *, timeout_s: float) -> None:
        """Stop what runs in its session, and have the server never take a call in it again: also if it has never had
        the session, so that no start that is still on its way comes to anything. It is told of no more.

        :raises QueryNotStoppedError: if the server does not confirm that in time
        """
        self.let_go(handle)
        async with self._questions() as ask:
            await end_session(ask, handle, timeout_s=timeout_s)

    async def find(self, handle: QueryHandle) -> QueryHandle | None:
        """The query that runs in its session, whoever started it; None: none does. One may still be started there.

        :raises UnansweredError: if the server does not say
        """
        async with self._questions() as ask:
            try:
                await ask.require_session(handle.session_id)
                running = await ask.running(handle.session_id)
            except NotThereError:
                return None
        same = [query for query in running if query.query_id == handle.query_id]
        for query in same or running:
            return replace(handle, query_id=query.query_id, run_id=query.run_id)
        return None

    async def close(self) -> None:
        """Tell of nothing more. All queries run on."""
        for handle in list(self._watched):
            self.let_go(handle)
        mine, self._mine = self._mine, None
        if mine is not None:
            await SERVERS.give_back(mine[0])

    def _on_news(self, news: QueryNews) -> None:
        if isinstance(news, QueryEnded | QueryStopped | QueryLost):
            self._watched.pop(news.handle, None)
        self._hear(news)

    @contextlib.asynccontextmanager
    async def _questions(self) -> AsyncIterator[Questions]:
        """:raises UnansweredError: if this process lacks what is needed to ask"""
        server = SERVERS.take(self._settings)
        try:
            await server.open()
            yield Questions(server.line, self._caller)
        finally:
            await SERVERS.give_back(server)
