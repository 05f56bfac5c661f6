"""Polls all queries on one server that this process watches: a few at once, evenly spread over time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.spark.connect.grpc_calls.calls import (
    NotThereError,
    ServerCalls,
    SessionClosedError,
    SessionUnknownError,
    UnansweredError,
)
from airflow_provider.spark.connect.grpc_calls.messages import RunningQuery
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.silence import Silence
from airflow_provider.spark.connect.query_watch.watch_events import (
    QueryEnded,
    QueryLost,
    QueryProgressed,
    QueryStopped,
    ServerBack,
    ServerSilent,
    WatchEvent,
)
from airflow_provider.spark.connect.trouble import Trouble
from airflow_provider.spark.local.streaming.awaiting import Looks
from airflow_provider.spark.local.streaming.query_progress import QueryProgress

log = logging.getLogger(__name__)

POLL_EVERY_S: Final = 3.5
"""Then an end is noticed within five seconds, unless there are very many queries, or their server answers slowly."""
POLLS_PER_S: Final = 300
"""If there are more queries than that allows, each is polled less often."""
AT_ONCE: Final = 16
_SLOW_S: Final = 0.07
"""A server whose answer takes longer has better things to do: the next one is asked for so many times later."""
_LEAST_OFTEN: Final = 9.0
"""How many times later at most."""


class Listener:
    """Receives the events of some of the queries. It is called in the context in which it was created, so that what it
    logs goes to the log of its own trigger, although all triggers of a process share the polling.

    :param calls: the calls to the server on behalf of this listener
    :param tell_every_s: report a query's progress at most this often, in seconds
    """

    def __init__(self, calls: ServerCalls, hear: Callable[[WatchEvent], None], tell_every_s: float) -> None:
        self.calls = calls
        self.tell_every_s = tell_every_s
        self._hear = hear
        self._context = copy_context()

    def tell(self, event: WatchEvent) -> None:
        try:
            self._context.copy().run(self._hear, event)  # one that is entered can't be entered again
        except Exception:
            log.exception("Could not handle an event of a query; the other queries are still watched")


@dataclass(slots=True, eq=False)
class Watched:
    """One query.

    :ivar tell_at: report its progress no sooner (the loop's clock)
    :ivar round: the round of doubt about the server (``QueryPolling._round``) in which its session was last confirmed
    :ivar gone: whether it is no longer watched
    """

    handle: QueryHandle
    query: RunningQuery
    listener: Listener
    tell_at: float
    looks: Looks
    round: int = -1
    gone: bool = False
    complained: bool = False


@dataclass(order=True, slots=True)
class _Due:
    at: float
    number: int
    watched: Watched = field(compare=False)


class QueryPolling:
    """The queries of one server. Belongs to one event loop.

    :param name: the server, for the log
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._silence = Silence()
        self._due: list[_Due] = []
        self._numbers = itertools.count()
        self._listeners: dict[Listener, int] = {}
        self._changed = asyncio.Event()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._polls: set[asyncio.Task[None]] = set()
        self._round = 0
        self._answered: set[Watched] = set()
        """The queries whose last question was answered, since the last sign that the server is silent."""
        self._in_vain: set[Watched] = set()
        """The queries that were asked in vain since the last answer."""
        self._answered_at = float("-inf")

    def add(self, handle: QueryHandle, query: RunningQuery, listener: Listener) -> Watched:
        """Poll this query until it has ended or is lost, or until :meth:`remove`. If the server is already known to be
        silent, the listener hears of it immediately.
        """
        now = _now()
        tell_at = now + random.uniform(0, listener.tell_every_s)
        watched = Watched(handle, query, listener, tell_at, Looks(listener.tell_every_s))
        self._listeners[listener] = self._listeners.get(listener, 0) + 1
        if self._silence.why and self._listeners[listener] == 1:
            listener.tell(ServerSilent(self._silence.why))
        self._put(watched, now + random.uniform(0, self._every_s()))
        return watched

    def remove(self, watched: Watched) -> None:
        """Stop polling this query. Its listener hears no more of it."""
        if not watched.gone:
            watched.gone = True
            self._answered.discard(watched)
            self._in_vain.discard(watched)
            self._listeners[watched.listener] -= 1
            if not self._listeners[watched.listener]:
                del self._listeners[watched.listener]
            if not self._listeners:
                self._silence.nobody_asks()

    def give_up(self, why: str) -> None:
        """The server can never be reached from this process."""
        self._silence.why = why
        self._tell_all(ServerSilent(why))

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                watched = await self._next()
                if self._silence.doubtful:
                    await asyncio.sleep(self._silence.wait_s())
                    await self._poll(watched)
                else:
                    await self._room.acquire()
                    task = asyncio.create_task(self._poll_and_release(watched))
                    self._polls.add(task)
                    task.add_done_callback(self._polls.discard)
        finally:
            for task in self._polls:
                task.cancel()
            await asyncio.gather(*self._polls, return_exceptions=True)

    async def _next(self) -> Watched:
        """Wait until a query is due, and return it."""
        while True:
            self._changed.clear()
            while self._due and self._due[0].watched.gone:
                heapq.heappop(self._due)
            if self._due and self._due[0].at <= _now():
                return heapq.heappop(self._due).watched
            timer = asyncio.get_running_loop().call_at(self._due[0].at, self._changed.set) if self._due else None
            try:
                await self._changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    async def _poll_and_release(self, watched: Watched) -> None:
        try:
            await self._poll(watched)
        finally:
            self._room.release()

    async def _poll(self, watched: Watched) -> None:
        asked_at, every_s = _now(), self._every_s()
        try:
            event = await self._ask(watched, asked_at)
        except UnansweredError as error:
            self._failed(watched, error, asked_at)
        except NotThereError as error:
            if not isinstance(error, SessionClosedError | SessionUnknownError):
                self._round += 1  # the session exists but is empty: the server may have been restarted
            self._hear_answer(watched)
            self._end(watched, QueryLost(watched.handle, _why_lost(error)))
        except Exception as error:
            log.exception("Could not poll query %s", watched.query)
            self._failed(watched, UnansweredError(Trouble.OTHER, repr(error)), asked_at)
        else:
            self._hear_answer(watched)
            if event is not None:
                self._end(watched, event)
        if not watched.gone:
            later = min(max(1.0, (_now() - asked_at) / _SLOW_S), _LEAST_OFTEN)
            self._put(watched, asked_at + later * every_s)

    async def _ask(self, watched: Watched, now: float) -> QueryEnded | QueryStopped | None:
        """How the query ended; None: it is still running."""
        calls, session, query = watched.listener.calls, watched.handle.session_id, watched.query
        in_round = self._round
        if watched.round != in_round:
            await calls.require_session(session)
        status = await calls.status(session, query)
        if not status.is_active:
            if await calls.is_being_ended(session):  # a query that was just starting fails by that
                return QueryStopped(watched.handle)
            error = await calls.error(session, query)
            if error is not None:
                await calls.require_spark()
            last = await calls.last_progress(session, query)
            if error is not None:
                self._look(watched, last, in_batch=True)  # the batches before tell how well the query has gone
            return QueryEnded(watched.handle, error, None if last is None else last.batch)
        watched.round = in_round
        if now >= watched.tell_at:
            watched.tell_at = now + watched.listener.tell_every_s
            self._look(watched, await calls.last_progress(session, query), in_batch=status.in_batch)
        return None

    def _look(self, watched: Watched, progress: QueryProgress | None, *, in_batch: bool) -> None:
        for news in watched.looks.next(progress, in_batch=in_batch):
            if not watched.gone:
                watched.listener.tell(QueryProgressed(watched.handle, news))

    def _hear_answer(self, watched: Watched) -> None:
        self._answered_at = _now()
        self._in_vain.clear()
        if not watched.gone:
            self._answered.add(watched)
        if self._silence.doubtful:
            self._spread()
        if self._silence.answered():
            log.info("The Spark Connect server %s answers again", self._name)
            self._tell_all(ServerBack())

    def _failed(self, watched: Watched, error: UnansweredError, asked_at: float) -> None:
        if not self._listeners:
            return
        self._answered.discard(watched)
        if not watched.gone:
            self._in_vain.add(watched)
        if self._answers_for_others(error.trouble, asked_at):
            if not watched.complained:
                watched.complained = True
                log.warning("Spark Connect server %s gives no status of query %s: %s", self._name, watched.query, error)
            return
        self._answered.clear()
        self._round += 1
        if self._silence.failed(str(error), asked_at=asked_at, now=_now()):
            log.warning("The Spark Connect server %s gives no status of its queries: %s", self._name, error)
            self._tell_all(ServerSilent(str(error)))

    def _answers_for_others(self, trouble: Trouble, asked_at: float) -> bool:
        """Whether only this query's call has failed, and the server still answers others."""
        if trouble is Trouble.SLOW:
            return self._answered_at > asked_at
        many = len(self._in_vain) > AT_ONCE and self._answered_at < asked_at - POLL_EVERY_S
        return trouble is Trouble.OTHER and bool(self._answered) and not many

    def _end(self, watched: Watched, event: QueryEnded | QueryStopped | QueryLost) -> None:
        if not watched.gone:
            self.remove(watched)
            watched.listener.tell(event)

    def _tell_all(self, event: ServerSilent | ServerBack) -> None:
        for listener in list(self._listeners):
            listener.tell(event)

    def _put(self, watched: Watched, at: float) -> None:
        heapq.heappush(self._due, _Due(at, next(self._numbers), watched))
        if self._due[0].watched is watched:
            self._changed.set()

    def _spread(self) -> None:
        """Spread the queries over time again: all have become due while the server was silent."""
        now, every_s = _now(), self._every_s()
        for due in self._due:
            due.at = now + random.uniform(0, every_s)
        heapq.heapify(self._due)
        self._changed.set()

    def _every_s(self) -> float:
        return max(POLL_EVERY_S, len(self._due) / POLLS_PER_S)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _why_lost(error: NotThereError) -> str:
    if isinstance(error, SessionClosedError):
        return f"the server has closed its session: it was told to, or the session was idle for too long ({error})"
    if isinstance(error, SessionUnknownError):
        return f"the server does not know its session, so it was restarted ({error})"
    return f"the server does not have it, so it was restarted or the query ended long ago ({error})"
