"""Queries that go on without the process that began them: who has their tasks watches, ends, and adopts them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider.protocol.model import TaskId, Tasks
from airflow_provider.runners.watches import MakeWatch, SettingsOf, Watch, Watches
from airflow_provider.spark.failures import Mask, describe_query, nothing_secret, traceback_of_query
from airflow_provider.spark.runner import (
    LAST_EVENTS,
    OnEvent,
    QueryAdopted,
    QueryCleared,
    QueryUnreachable,
    RunnerEvent,
    SparkLost,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStopped,
)
from airflow_provider.spark_connect.handle import QueryHandle
from airflow_provider.spark_connect.watch_events import QueryEvent, QueryEnded, QueryLost, WatchEvent, QueryStopped, QueryProgressed
from airflow_provider.spark_connect.server import ConnectServer, ConnectSettings

log = logging.getLogger(__name__)

_ANSWER_S: Final = 30.0
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0
_TOGETHER_S: Final = 30.0
SILENT: Final = "waiting for its server"


@dataclass(frozen=True, slots=True)
class _Watched:
    order: TaskOrder
    handle: QueryHandle


class DetachedQueries:
    """The queries of one worker's tasks. All methods belong to one event loop and never block it.

    A query has ended for certain when its server says so: it has ended the session, and takes no call in it any more.
    Or when the server that had it is there no more, and another one in its place. As long as a server says neither,
    nothing is taken for ended, and it is asked again.

    :param on_event: hears what becomes of the tasks: of each exactly one last event, if it is not let go of
    :param own: the server on which this worker would go on with a query; None: it has none
    :param settings_of: how to use another one
    :param mask: takes secrets out of what is said of errors
    :param on_condition: is called when :attr:`condition` has changed
    """

    def __init__(
        self,
        on_event: OnEvent,
        *,
        own: ConnectServer | None,
        settings_of: SettingsOf,
        make_watch: MakeWatch,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_event = on_event
        self._own = own
        self._mask = mask
        self._watches = Watches(settings_of, make_watch, self._hear, on_condition)
        self._tasks: dict[TaskId, _Watched] = {}
        self._sessions: dict[str, TaskId] = {}
        self._steps: dict[TaskId, asyncio.Task[None]] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._ending: dict[QueryHandle, asyncio.Task[None]] = {}
        self._losses = 0
        self._lost_at = -_TOGETHER_S

    @property
    def condition(self) -> str:
        """What keeps it from knowing how its tasks are; mostly nothing."""
        return SILENT if self._watches.silent else ""

    @property
    def running(self) -> Tasks:
        """What is watched, looked for, or ended here."""
        return frozenset(self._tasks)

    def watch(self, order: TaskOrder, handle: Any) -> None:
        """What has begun here goes on by itself, if it has begun."""
        self._follow(order, handle, tell=False)

    def take_over(self, order: TaskOrder, handle: Any) -> None:
        """See what became of what ran before: on this worker's own server it is gone on with, elsewhere it is ended."""
        self._follow(order, handle, tell=True)

    def let_go(self, tasks: Iterable[TaskId]) -> None:
        """Watch these no more; they go on. Nothing more is heard of them."""
        for task in tasks:
            self._forget(task)

    def stop(self, tasks: Iterable[TaskId], reason: str) -> Tasks:
        """End these. Their last events come when that is certain.

        :return: those that are not here
        """
        tasks = frozenset(tasks)
        here = tasks & self._tasks.keys()
        for task in here:
            watched = self._tasks[task]
            self._drop_step(task)
            self._watches.let_go(watched.handle)
            self._step(watched, self._stop(watched, reason))
            stop = self._steps[task]
            self._stops.add(stop)
            stop.add_done_callback(self._stops.discard)
        return tasks - here

    def end(self, handle: Any, then: Callable[[], None], *, still: Callable[[], bool]) -> None:
        """End what nobody is to run; ``then`` is called when that is certain.

        :param still: whether nobody is; asked each time before the server is
        """
        try:
            found = QueryHandle.from_json(handle)
        except ValueError as wrong:
            log.warning("What is left of a task can't be ended: %s", wrong)
            return
        if found not in self._ending:
            self._ending[found] = asyncio.ensure_future(self._end(found, then, still))

    async def close(self, *, timeout_s: float = 10.0) -> None:
        """Let go of all. What is being ended has so long to end: a query that has stopped, in a session that is still
        there, looks to the next one as if it had come to its end.
        """
        ends = {*self._ending.values(), *self._stops}
        if ends:
            await asyncio.wait(ends, timeout=timeout_s)
        steps = [*self._steps.values(), *self._ending.values()]
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)
        self._tasks.clear()
        self._sessions.clear()
        await self._watches.close()

    # ---- one task

    def _follow(self, order: TaskOrder, handle: Any, *, tell: bool) -> None:
        self._forget(order.task)
        try:
            watched = _Watched(order, QueryHandle.from_json(handle))
        except ValueError as wrong:
            self._on_event(QueryUnreachable(order=order, why=str(wrong)))
            return
        self._keep(watched)
        self._end_no_more(watched.handle)
        elsewhere = watched.handle.server != self._own
        self._step(watched, self._leave_for_good(watched) if elsewhere else self._find(watched, tell=tell))

    def _end_no_more(self, handle: QueryHandle) -> None:
        """Somebody is to run it after all."""
        place = handle.server, handle.session_id
        for ending in [each for each in self._ending if (each.server, each.session_id) == place]:
            self._ending.pop(ending).cancel()

    async def _find(self, watched: _Watched, *, tell: bool) -> None:
        """Where it is not known whether it had begun, it is asked; what had not begun by then never will."""

        async def look() -> QueryHandle | None:
            watch = await self._watches.of(watched.handle)
            if watched.handle.is_known:
                return watched.handle
            found = await watch.find(watched.handle)
            if found is None:
                await watch.stop(watched.handle, timeout_s=_ANSWER_S)
            return found

        found = await self._insist(watched, look)
        if found is None:
            self._say(watched, QueryCleared(order=watched.order))
            return
        (await self._watches.of(found)).watch(found)
        self._keep(replace(watched, handle=found))
        if tell or found != watched.handle:
            self._on_event(QueryAdopted(order=watched.order, handle=found.to_json()))

    async def _leave_for_good(self, watched: _Watched) -> None:
        await self._insist(watched, lambda: self._stop_there(watched.handle))
        self._say(watched, QueryCleared(order=watched.order))

    async def _stop(self, watched: _Watched, reason: str) -> None:
        await self._insist(watched, lambda: self._stop_there(watched.handle))
        self._say(watched, TaskStopped(order=watched.order, reason=reason))

    async def _end(self, handle: QueryHandle, then: Callable[[], None], still: Callable[[], bool]) -> None:
        def refused(why: str) -> None:
            log.warning("Could not end a query that nobody is to run, on %s: %s", handle.server, why)

        async def stop() -> None:
            if still():
                await self._stop_there(handle)

        await self._until_answered(handle, stop, refused)
        del self._ending[handle]
        if still():
            then()

    async def _insist(self, watched: _Watched, ask: Callable[[], Awaitable[QueryHandle | None]]) -> QueryHandle | None:
        """Until it is answered; why it is not, is told once."""
        said = ""

        def refused(why: str) -> None:
            nonlocal said
            if why != said:
                said = why
                self._on_event(QueryUnreachable(order=watched.order, why=f"{watched.handle.server}: {why}"))

        return await self._until_answered(watched.handle, ask, refused)

    async def _until_answered(
        self, handle: QueryHandle, ask: Callable[[], Awaitable[QueryHandle | None]], refused: Callable[[str], None]
    ) -> QueryHandle | None:
        """:param refused: called each time with why there is no answer yet"""
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return await ask()
            except Exception as failed:  # noqa: BLE001 - whatever the client raises, it is no answer
                refused(self._why(failed))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            with contextlib.suppress(Exception):  # else it is asked as before
                await self._watches.look_again(handle)

    async def _stop_there(self, handle: QueryHandle) -> None:
        await (await self._watches.of(handle)).stop(handle, timeout_s=_ANSWER_S)

    def _why(self, failed: Exception) -> str:
        return self._mask(str(failed)) or type(failed).__name__

    # ---- news

    def _hear(self, news: QueryEvent) -> None:
        task = self._sessions.get(news.handle.session_id)
        if task is None:
            return
        watched = self._tasks[task]
        order = watched.order
        if isinstance(news, QueryProgressed):
            self._on_event(TaskProgressed(order=order, progress=news.progress))
        elif isinstance(news, QueryLost):
            self._say(watched, SparkLost(order=order, spark=self._number_of_lost(), error=self._mask(news.why)))
        elif isinstance(news, QueryStopped):
            self._step(watched, self._leave_for_good(watched))
        else:
            self._step(watched, self._close_session(watched, news))

    async def _close_session(self, watched: _Watched, ended: QueryEnded) -> None:
        """It has ended by itself. Its session would stay, and what slept in the process that began it go on there."""
        try:
            await self._stop_there(watched.handle)
        except Exception as failed:  # noqa: BLE001 - the next attempt ends the session before it begins
            log.info("The session of %s stays for now: %s", watched.order.label, self._why(failed))
        order = watched.order
        if ended.error is None:
            result = {"query_id": ended.handle.query_id, "last_batch": ended.last_batch}
            self._say(watched, TaskFinished(order=order, result=result))
        else:
            error, trace = describe_query(ended.error, self._mask), traceback_of_query(ended.error, self._mask)
            self._say(watched, TaskFailed(order=order, error=error, traceback=trace, retryable=True))

    def _number_of_lost(self) -> int:
        """What is lost together, was lost with one server. Numbers below zero: those above are the runner's."""
        now = asyncio.get_running_loop().time()
        if now > self._lost_at + _TOGETHER_S:
            self._losses += 1
        self._lost_at = now
        return -self._losses

    # ---- what is known

    def _keep(self, watched: _Watched) -> None:
        self._tasks[watched.order.task] = watched
        self._sessions[watched.handle.session_id] = watched.order.task

    def _drop(self, task: TaskId) -> _Watched | None:
        watched = self._tasks.pop(task, None)
        if watched is not None:
            self._sessions.pop(watched.handle.session_id, None)
        return watched

    def _say(self, watched: _Watched, event: RunnerEvent) -> None:
        """After this nothing of it is here."""
        assert isinstance(event, (*LAST_EVENTS, QueryCleared))
        self._drop(watched.order.task)
        self._on_event(event)

    def _forget(self, task: TaskId) -> None:
        watched = self._drop(task)
        self._drop_step(task)
        if watched is not None:
            self._watches.let_go(watched.handle)

    def _step(self, watched: _Watched, work: Any) -> None:
        task = watched.order.task
        step = self._steps[task] = asyncio.ensure_future(work)

        def done(_: asyncio.Future[None]) -> None:
            if self._steps.get(task) is step:
                del self._steps[task]
            if not step.cancelled() and step.exception() is not None:
                log.error("A fault in what watches %s", watched.order.label, exc_info=step.exception())

        step.add_done_callback(done)

    def _drop_step(self, task: TaskId) -> None:
        step = self._steps.pop(task, None)
        if step is not None:
            step.cancel()


MakeQueries = Callable[[OnEvent], DetachedQueries]
"""Makes those of a worker, given whom they shall tell."""


def nothing_detached(on_event: OnEvent) -> DetachedQueries:
    """Of a worker that knows no way to any server."""

    async def no_way(handle: QueryHandle) -> ConnectSettings:
        raise LookupError(f"this worker knows no way to {handle.server}")

    def no_watch(settings: ConnectSettings, _hear: Callable[[WatchEvent], None]) -> Watch:
        raise LookupError(f"this worker knows no way to {settings.server}")

    return DetachedQueries(on_event, own=None, settings_of=no_way, make_watch=no_watch)
