"""Spark Connect servers, as far as they decide who may write: an ended session stays ended, and a checkpoint has one
query. A query is registered some time after its start was accepted, even if its session was closed meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from airflow_provider.spark.connect.ending import end_session
from airflow_provider.spark.connect.grpc_calls.calls import ServerCalls, SessionClosedError, UnansweredError
from airflow_provider.spark.connect.grpc_calls.messages import RunningQuery
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import QueryEnded, QueryLost, QueryStopped, WatchEvent
from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.spark.connect.trouble import Trouble


class RefusedError(Exception):
    """The server refuses a call."""


class AwayError(Exception):
    """The server does not answer."""


@dataclass(frozen=True, slots=True)
class Query:
    session_id: str
    checkpoint: str
    run_id: str


@dataclass(slots=True, eq=False)
class Start:
    """A query that is being started."""

    session_id: str
    interrupted: bool = False


@dataclass(slots=True)
class Server:
    """One server, over all its restarts.

    :ivar life: counts its restarts, from 1: a client that has seen an earlier life is refused
    :ivar away: whether nobody can reach it; its queries keep running
    :ivar open: its sessions
    :ivar closed: the sessions that it has ended for ever
    :ivar active: the running queries, by session
    :ivar ended: the queries that have ended by themselves or were stopped, by session
    :ivar errors: why these have ended, if they have failed
    :ivar ending: the sessions in which no query may start any more
    :ivar starting: the starts that it has accepted, and not yet registered
    :ivar started: how many queries it has started
    """

    server: ConnectServer
    life: int = 1
    away: bool = False
    open: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    active: dict[str, Query] = field(default_factory=dict)
    ended: dict[str, Query] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)
    starting: list[Start] = field(default_factory=list)
    started: int = 0

    def restart(self) -> None:
        """Forget everything; nothing keeps running."""
        self.life += 1
        self.open, self.closed, self.active, self.ended, self.ending = set(), set(), {}, {}, set()
        self.starting = []

    def begin(self, session_id: str) -> int:
        """The first call in a session.

        :returns: the life that the client then knows
        """
        self._answers()
        if session_id in self.closed:
            raise RefusedError(f"session {session_id} was closed")
        self.open.add(session_id)
        return self.life

    async def start(self, session_id: str, checkpoint: str, life: int, moment: Callable[[], Awaitable[None]]) -> Query:
        """Start a query. The call may arrive late and take long, and goes on if its session is closed meanwhile."""
        self._answers()
        if life != self.life or session_id not in self.open or session_id in self.ending:
            raise RefusedError(f"session {session_id} is not there, or is being ended")
        start = Start(session_id)
        self.starting.append(start)
        await moment()
        if start not in self.starting:
            raise AwayError(f"{self.server} was restarted")
        self.starting.remove(start)
        if any(query.checkpoint == checkpoint for query in self.active.values()):
            raise RefusedError(f"a query has {checkpoint}")
        self.started += 1
        query = Query(session_id, checkpoint, f"{self.server.host}-{self.life}-{self.started}")
        # Spark forgets in which session a query runs whose start was interrupted.
        self.active[query.run_id if start.interrupted else session_id] = query
        self._answers()
        if start.interrupted or session_id in self.closed:
            raise RefusedError("the operation was canceled")
        return query

    def interrupt(self, session_id: str) -> None:
        for start in self.starting:
            start.interrupted |= start.session_id == session_id

    def release(self, session_id: str) -> None:
        """End the session: it takes no more calls."""
        self.ended.pop(session_id, None)
        self.open.discard(session_id)
        self.closed.add(session_id)
        self.active.pop(session_id, None)

    def end(self, session_id: str, error: str | None = None) -> None:
        """The query of this session ends."""
        query = self.active.pop(session_id, None)
        if query is not None:
            self.ended[session_id] = query
            if error is not None:
                self.errors[session_id] = error

    def _answers(self) -> None:
        if self.away:
            raise AwayError(f"{self.server} does not answer")


class CallsOfServer(ServerCalls):
    """The calls that end a session. Each takes a random time."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        self._server = server
        self._chance = chance

    async def refuse_starts(self, session_id: str, timeout_s: float) -> None:
        await self._enter(session_id)
        self._server.ending.add(session_id)

    async def interrupt(self, session_id: str, timeout_s: float) -> frozenset[str]:
        await self._enter(session_id)
        self._server.interrupt(session_id)
        return frozenset()

    async def is_starting(self, session_id: str, timeout_s: float) -> bool:
        await self._enter(session_id)
        return any(start.session_id == session_id for start in self._server.starting)

    async def is_executing(self, session_id: str, operations: Iterable[str], timeout_s: float) -> bool:
        await self._enter(session_id)
        return any(start.session_id == session_id for start in self._server.starting)

    async def running(self, session_id: str, timeout_s: float = 1.0) -> list[RunningQuery]:
        await self._enter(session_id)
        query = self._server.active.get(session_id)
        return [] if query is None else [RunningQuery("q", query.run_id)]

    async def stop(self, session_id: str, query: RunningQuery, timeout_s: float) -> None:
        await self._enter(session_id)
        self._server.end(session_id)

    async def release(self, session_id: str, timeout_s: float) -> None:
        await self._enter(session_id)
        self._server.release(session_id)

    async def require_session(self, session_id: str) -> None:
        await self._enter(session_id)

    async def _enter(self, session_id: str) -> None:
        await asyncio.sleep(self._chance.random())
        if self._server.away:
            raise UnansweredError(Trouble.AWAY, f"{self._server.server} does not answer")
        if session_id in self._server.closed:
            raise SessionClosedError(session_id)
        self._server.open.add(session_id)


class WatchOfServer:
    """A stand-in for :class:`~airflow_provider.spark.connect.query_watch.watching.QueryWatch`. Its calls take a random
    time.
    """

    def __init__(self, server: Server, hear: Callable[[WatchEvent], None], chance: random.Random) -> None:
        self._server = server
        self._hear = hear
        self._chance = chance
        self._watched: dict[QueryHandle, asyncio.Task[None]] = {}

    @property
    def watched(self) -> frozenset[QueryHandle]:
        return frozenset(self._watched)

    def watch(self, handle: QueryHandle) -> None:
        if handle not in self._watched:
            self._watched[handle] = asyncio.ensure_future(self._look(handle))

    def let_go(self, handle: QueryHandle) -> None:
        looking = self._watched.pop(handle, None)
        if looking is not None:
            looking.cancel()

    async def stop(self, handle: QueryHandle, *, timeout_s: float) -> None:
        self.let_go(handle)
        await end_session(CallsOfServer(self._server, self._chance), handle, timeout_s=timeout_s)

    async def find(self, handle: QueryHandle) -> QueryHandle | None:
        await self._on_its_way()
        self._server._answers()
        query = self._server.active.get(handle.session_id)
        await self._on_its_way()
        return None if query is None else replace(handle, query_id="q", run_id=query.run_id)

    async def close(self) -> None:
        for handle in list(self._watched):
            self.let_go(handle)

    async def _on_its_way(self) -> None:
        await asyncio.sleep(self._chance.random())

    async def _look(self, handle: QueryHandle) -> None:
        while True:
            await asyncio.sleep(1 + self._chance.random())
            server = self._server
            active = server.active.get(handle.session_id)
            if server.away or (active is not None and active.run_id == handle.run_id):
                continue
            self._watched.pop(handle, None)
            self._hear(self._what_became_of(handle))
            return

    def _what_became_of(self, handle: QueryHandle) -> WatchEvent:
        if handle.session_id not in self._server.ended:
            return QueryLost(handle, "it is not there")
        if handle.session_id in self._server.ending:
            return QueryStopped(handle)
        return QueryEnded(handle, self._server.errors.get(handle.session_id), 1)
