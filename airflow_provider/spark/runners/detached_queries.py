"""Detached queries, and drivers on a cluster: they keep running without the process that started them. The worker that
has their tasks adopts, watches and ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider.spark.attempts.blame import blame, blame_for_query
from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.attempts.run_attempt import ended_by
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import (
    QueryEnded,
    QueryEvent,
    QueryLost,
    QueryProgressed,
    QueryStopped,
    WatchEvent,
)
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.runner import (
    LastEvent,
    OnEvent,
    QueryAdopted,
    QueryCleared,
    QueryUnreachable,
    RunnerEvent,
    ServersSilent,
    SparkLost,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStopped,
)
from airflow_provider.spark.runners.driver_watch import DriverEnded
from airflow_provider.spark.runners.watches import Handle, MakeWatch, SettingsOf, Watch, Watches, handle_for
from airflow_provider.spark.submit.clusters import ClusterHere, cluster_here
from airflow_provider.spark.submit.detached import ClusterSilentError, DriverError
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId, Tasks

log = logging.getLogger(__name__)

_STOP_S: Final = 30.0
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0
SILENT: Final = "waiting for its server"


@dataclass(frozen=True, slots=True)
class _Watched:
    """:param losses: how often its server was known to have lost its queries when it was first watched here"""

    order: TaskOrder
    handle: Handle
    losses: int


class DetachedQueries:
    """The detached queries of one worker's tasks. All methods belong to one event loop and never block it.

    A query has certainly ended when its server confirms that it has closed the session, or when the server was
    restarted. Until then the query is assumed to be running, and the server is asked again. A driver on a cluster has
    ended when its cluster says so; in all else it is treated as a query.

    :param on_event: called with the events of the tasks: exactly one last event for each, unless it is let go of
    :param group_id: of the worker; empty: unknown, and it has no drivers
    :param own: this worker's own server, on which it adopts queries; None: it has none
    :param settings_of: how to use the server of a handle
    :param mask: removes secrets from error messages
    :param on_condition: called when :attr:`condition` has changed
    :param cluster_of: gives the clusters that this process knows
    """

    def __init__(
        self,
        on_event: OnEvent,
        *,
        group_id: str = "",
        own: ConnectServer | None,
        settings_of: SettingsOf,
        make_watch: MakeWatch,
        cluster_of: ClusterHere = cluster_here,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_event = on_event
        self._group_id = group_id
        self._own = own
        self._mask = mask
        self._on_condition = on_condition
        self._watches = Watches(settings_of, make_watch, cluster_of, self._hear, self._silence_changed, mask)
        self._tasks: dict[TaskId, _Watched] = {}
        self._places: dict[object, TaskId] = {}
        self._steps: dict[TaskId, asyncio.Task[None]] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._ending: dict[Handle, asyncio.Task[None]] = {}
        self._doubted: set[TaskId] = set()
        self._losses = 0
        self._refusals: dict[ConnectServer | str, str] = {}

    @property
    def condition(self) -> str:
        """Why the state of some tasks is unknown; usually empty."""
        return SILENT if self._watches.silent else ""

    @property
    def lacks(self) -> str:
        """Why this process can't watch or kill a driver that it has; another process may. Usually empty."""
        return self._watches.lacks

    @property
    def running(self) -> Tasks:
        """The tasks whose queries are watched, searched for or being ended here."""
        return frozenset(self._tasks)

    def watch(self, order: TaskOrder, handle: Any) -> None:
        """Watch a query that this worker has started, if it was started."""
        self._follow(order, handle, tell=False)

    def take_over(self, order: TaskOrder, handle: Any) -> None:
        """Take over an earlier query: adopt it on this worker's own server, or end it on any other server."""
        self._follow(order, handle, tell=True)

    def let_go(self, tasks: Iterable[TaskId]) -> None:
        """Stop watching these. They keep running, and no more events follow."""
        for task in tasks:
            self._forget(task)

    def stop(self, tasks: Iterable[TaskId], reason: str) -> Tasks:
        """End these. Their last events come when they have certainly ended.

        :return: those that are not watched here
        """
        tasks = frozenset(tasks)
        here = tasks & self._tasks.keys()
        for task in here:
            watched = self._tasks[task]
            self._drop_step(task)
            self._watches.let_go(watched.handle)
            self._step(watched, self._stop(watched, reason))
            self._stops_until_closed(self._steps[task])
        return tasks - here

    def end(self, task: TaskId, handle: Any, then: Callable[[], None], *, still: Callable[[], bool]) -> None:
        """End a query of this task that nobody is to run; ``then`` is called when it has certainly ended.

        :param still: whether this is still so; called before each call to the server
        """
        try:
            found = handle_for(task, self._group_id, handle)
        except ValueError as wrong:
            log.warning("Can't end a query that has no owner: %s", self._why(wrong))
            return
        if found not in self._ending:
            self._ending[found] = asyncio.ensure_future(self._end(found, then, still))

    async def close(self, *, timeout_s: float = 10.0) -> None:
        """Stop watching everything.

        :param timeout_s: how long to wait for the queries that are being ended. If a query was stopped and its session
            is still open, the next worker can't tell it from one that ended by itself
        """
        ends = {*self._ending.values(), *self._stops}
        if ends:
            _, late = await asyncio.wait(ends, timeout=timeout_s)
            if late:
                doubtful = [watched.order.label for watched in self._tasks.values()]
                doubtful += [f"a query that has no owner, on {handle.server}" for handle in self._ending]
                log.warning(
                    "Not confirmed within %.3g s that it has ended: %s; the next worker sees to it",
                    timeout_s,
                    in_short(doubtful) or "the session of a query that has ended",
                )
        steps = {*self._steps.values(), *self._ending.values(), *self._stops}
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)
        self._tasks.clear()
        self._places.clear()
        await self._watches.close()

    # ---- one task

    def _follow(self, order: TaskOrder, handle: Any, *, tell: bool) -> None:
        self._forget(order.task)
        try:
            watched = _Watched(order, handle_for(order.task, self._group_id, handle), self._losses)
        except ValueError as wrong:
            self._on_event(QueryUnreachable(order=order, why=self._why(wrong)))
            return
        self._keep(watched)
        self._end_no_more(watched.handle)
        elsewhere = isinstance(watched.handle, QueryHandle) and watched.handle.server != self._own
        self._step(watched, self._leave_for_good(watched) if elsewhere else self._find(watched, tell=tell))

    def _end_no_more(self, handle: Handle) -> None:
        """Stop ending the query: this worker has its task again."""
        for ending in [each for each in self._ending if each.place == handle.place]:
            self._ending.pop(ending).cancel()

    async def _find(self, watched: _Watched, *, tell: bool) -> None:
        """Find the query, if it is not known whether it was started. If it was not, end its session, so that it can't
        start any more.
        """

        async def look() -> Handle | None:
            watch = await self._watches.of(watched.handle)
            if watched.handle.is_known:
                return watched.handle
            found: Handle | None = await watch.find(watched.handle)
            if found is None:
                await watch.stop(watched.handle, timeout_s=_STOP_S)
            return found

        found = await self._insist(watched, look)
        if found is None:
            self._say(watched, QueryCleared(order=watched.order))
            return
        (await self._watches.of(found)).watch(found)
        self._keep(replace(watched, handle=found))
        if tell or found != watched.handle or watched.order.task in self._doubted:
            self._doubted.discard(watched.order.task)
            self._on_event(QueryAdopted(order=watched.order, handle=found.to_json()))

    async def _leave_for_good(self, watched: _Watched) -> None:
        await self._insist(watched, lambda: self._stop_there(watched.handle))
        self._say(watched, QueryCleared(order=watched.order))

    async def _stop(self, watched: _Watched, reason: str) -> None:
        await self._insist(watched, lambda: self._stop_there(watched.handle))
        self._say(watched, TaskStopped(order=watched.order, reason=reason))

    async def _end(self, handle: Handle, then: Callable[[], None], still: Callable[[], bool]) -> None:
        def refused(why: str) -> None:
            """Say each reason of a server once, not for each query and each call."""
            if self._refusals.get(handle.server) != why:
                self._refusals[handle.server] = why
                log.warning("Could not end queries that have no owner, on %s: %s; trying again", handle.server, why)

        async def stop() -> None:
            if still():
                await self._stop_there(handle)

        await self._until_answered(handle, stop, refused)
        self._refusals.pop(handle.server, None)
        del self._ending[handle]
        if still():
            then()

    async def _insist(self, watched: _Watched, ask: Callable[[], Awaitable[Handle | None]]) -> Handle | None:
        """Ask until there is an answer. Report each reason for having none once."""
        said = ""

        def refused(why: str) -> None:
            nonlocal said
            if why != said:
                said = why
                self._doubted.add(watched.order.task)
                self._on_event(QueryUnreachable(order=watched.order, why=f"{watched.handle.server}: {why}"))

        return await self._until_answered(watched.handle, ask, refused)

    async def _until_answered(
        self, handle: Handle, ask: Callable[[], Awaitable[Handle | None]], refused: Callable[[str], None]
    ) -> Handle | None:
        """:param refused: called after each failed call, with the reason"""
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return await ask()
            except Exception as failed:  # noqa: BLE001 - whatever the client raises, it is no answer
                if isinstance(handle, DriverHandle) and not isinstance(failed, ClusterSilentError | DriverError):
                    self._watches.lacks = self._why(failed)
                refused(self._why(failed))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            with contextlib.suppress(Exception):  # then the old settings are used again
                await self._watches.look_again(handle)

    async def _stop_there(self, handle: Handle) -> None:
        await (await self._watches.of(handle)).stop(handle, timeout_s=_STOP_S)

    def _why(self, failed: Exception) -> str:
        return self._mask(str(failed)) or type(failed).__name__

    # ---- events of the watches

    def _hear(self, event: QueryEvent | DriverEnded) -> None:
        task = self._places.get(event.handle.place)
        if task is None:
            return
        watched = self._tasks[task]
        order = watched.order
        if isinstance(event, DriverEnded):
            self._say(watched, self._last_of(event, order))
        elif isinstance(event, QueryProgressed):
            self._on_event(TaskProgressed(order=order, progress=event.progress))
        elif isinstance(event, QueryLost):
            self._say(watched, SparkLost(order=order, spark=self._number_of_lost(watched), error=self._mask(event.why)))
        elif isinstance(event, QueryStopped):
            self._step(watched, self._leave_for_good(watched))
        elif event.error is None:
            self._finish(watched, event)
        else:
            self._step(watched, self._fail(watched, event.error))

    def _last_of(self, ended: DriverEnded, order: TaskOrder) -> LastEvent:
        """Nothing else is to be done: a driver that has ended leaves nothing on its cluster."""
        if ended.error:
            return ended_by(blame(DriverError(ended.error), lambda error: error, self._mask), order)
        return TaskFinished(order=order, result=ended.handle.result_at(round(time.time() * 1000)))

    def _silence_changed(self) -> None:
        self._on_event(ServersSilent(silent=self._watches.silent, detached=True))
        self._on_condition()

    def _finish(self, watched: _Watched, ended: QueryEnded) -> None:
        """Report first, then close the session: if the task were released in between, its next worker would find a
        closed session, and take the query for lost.
        """
        result = {"query_id": ended.handle.query_id, "last_batch": ended.last_batch}
        self._say(watched, TaskFinished(order=watched.order, result=result))
        self._stops_until_closed(asyncio.ensure_future(self._close_session(watched)))

    async def _fail(self, watched: _Watched, why: str) -> None:
        """Close the session first, then report: the next attempt may start on another server."""
        await self._close_session(watched)
        self._say(watched, ended_by(blame_for_query(why, self._mask), watched.order))

    async def _close_session(self, watched: _Watched) -> None:
        """The query has ended by itself. If its session stayed open, the process that started it could still use it."""
        try:
            await self._stop_there(watched.handle)
        except Exception as failed:  # noqa: BLE001 - the next attempt ends the session before it begins
            log.info("Could not close the session of %s now: %s", watched.order.label, self._why(failed))

    def _number_of_lost(self, watched: _Watched) -> int:
        """The number of its Spark. It is that of the first loss since the query began, however soon one loss follows
        another, and however late the query's own is noticed. It is negative: positive numbers are the runner's.
        """
        number = watched.losses + 1
        self._losses = max(self._losses, number)
        return -number

    # ---- what is known

    def _keep(self, watched: _Watched) -> None:
        self._tasks[watched.order.task] = watched
        self._places[watched.handle.place] = watched.order.task

    def _drop(self, task: TaskId) -> _Watched | None:
        watched = self._tasks.pop(task, None)
        self._doubted.discard(task)
        if watched is not None:
            self._places.pop(watched.handle.place, None)
        return watched

    def _say(self, watched: _Watched, event: RunnerEvent) -> None:
        """Report the last event of a task, and forget the task."""
        assert isinstance(event, LastEvent | QueryCleared)
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
                log.error("A fault of this program while watching %s", watched.order.label, exc_info=step.exception())

        step.add_done_callback(done)

    def _stops_until_closed(self, stop: asyncio.Task[None]) -> None:
        self._stops.add(stop)
        stop.add_done_callback(self._stops.discard)

    def _drop_step(self, task: TaskId) -> None:
        step = self._steps.pop(task, None)
        if step is not None:
            step.cancel()


MakeQueries = Callable[[OnEvent], DetachedQueries]
"""Makes the :class:`DetachedQueries` of a worker, given the callback for their events."""


def nothing_detached(on_event: OnEvent) -> DetachedQueries:
    """For a worker without access to any server."""

    async def no_way(handle: QueryHandle) -> ConnectSettings:
        raise LookupError(f"this worker can't reach {handle.server}: it has no Spark Connect server")

    def no_watch(settings: ConnectSettings, _hear: Callable[[WatchEvent], None]) -> Watch:
        raise LookupError(f"this worker can't reach {settings.server}: it has no Spark Connect server")

    return DetachedQueries(on_event, own=None, settings_of=no_way, make_watch=no_watch)
