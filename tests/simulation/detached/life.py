"""A worker with detached tasks: the real machine, the real watcher of queries, and a stand-in for the runner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from runner_events import event_of
from simulation.detached.servers import AwayError, CallsOfServer, Query, RefusedError, Server, WatchOfServer

from airflow_provider.spark import runner
from airflow_provider.spark.connect.ending import QueryNotStoppedError, end_session
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.query_watch.watch_events import WatchEvent
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.spark.runners.detached_queries import DetachedQueries
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.hands.orders import bare_order
from airflow_provider.worker.tasks import commands, events
from airflow_provider.worker.tasks.invariants import validate
from airflow_provider.worker.tasks.machine import handle
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.state import Execution, ExecutionSettings

if TYPE_CHECKING:
    from simulation.detached.world import World

SLOTS: Final = 2


@dataclass(slots=True)
class Attempt:
    """An attempt that runs in a thread of the worker's process.

    :ivar gate: set when the job's code may be called
    """

    run: TaskRun
    gate: asyncio.Event
    stopping: bool = False


class Life:
    """One process of a worker, or its time in a triggerer.

    :param own: the server on which it starts queries
    :ivar dead: whether its process has ended; calls that it has sent may still arrive
    :ivar awake: set while it does not sleep
    :ivar mine: the tasks that it has
    :ivar read_to: how many records of the status topic have reached it
    """

    def __init__(self, world: World, worker: WorkerId, own: Server, number: int, *, in_triggerer: bool) -> None:
        self.world, self.worker, self.own, self.in_triggerer = world, worker, own, in_triggerer
        self.number = number
        self.dead = False
        self.awake = asyncio.Event()
        self.awake.set()
        self.mine: set[TaskId] = set()
        self.read_to = len(world.snapshots) - 1
        self._heard: list[events.Event] = []
        self._attempts: dict[TaskId, Attempt] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._writing: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
        self.queries = DetachedQueries(
            self._take_in, own=own.server, settings_of=self._settings_of, make_watch=self._make_watch
        )
        settings = ExecutionSettings(
            worker=worker,
            slots=SLOTS,
            process=f"host/{worker}/{number}/1",
            lease_ms=10_000,
            linger_ms=0 if in_triggerer else 500,
            max_spark_deaths=1_000,
            mask=str,
            in_triggerer=in_triggerer,
        )
        self.execution = Execution(settings, world.jobs, world.snapshots[self.read_to], now_ms=self._now())
        self._spawn(self._write())

    # ---- from the membership

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        self.mine |= tasks
        self.read()
        self.feed(events.TasksGiven, tasks=tasks, epoch=epoch)

    def revoke(self, tasks: Tasks) -> None:
        self.feed(events.TasksRevoked, tasks=tasks, reason="revoked")

    def come(self, to: int) -> None:
        """The status topic has reached it up to this snapshot."""
        self.read_to = max(self.read_to, to)
        if self.awake.is_set():
            self.read()

    def read(self) -> None:
        """Feed what has reached it of the topics."""
        jobs, status = self.world.jobs, self.world.snapshots[self.read_to]
        if jobs is not self.execution.jobs or status is not self.execution.status:
            self.feed(events.TopicsRead, jobs=jobs, status=status)

    async def close(self) -> None:
        """End properly: let go of the queries that it only watches."""
        self.feed(events.Closed)
        for attempt in self._attempts.values():
            attempt.stopping = True
        while self._attempts:  # noqa: ASYNC110  time is virtual
            await asyncio.sleep(0.1)
        await self.queries.close(timeout_s=1.0)
        await self.end()

    async def end(self) -> None:
        """End without another word. Calls that were sent are still on their way."""
        self.dead = True
        await self.queries.close(timeout_s=0.0)
        for work in self._background:
            work.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    # ---- the machine

    def feed(self, kind: type[events.Event], **fields: Any) -> None:
        self._take_in(event_of(kind, **fields))

    def _take_in(self, event: events.Event) -> None:
        """Handle the event; if this process sleeps, when it wakes."""
        if self.dead:
            return
        if not self.awake.is_set():
            self._heard.append(event)
            return
        done = handle(self.execution, event, now_ms=self._now(), wall_ms=self._now())
        validate(self.execution)
        for command in done:
            self._carry_out(command)

    def wake(self) -> None:
        self.awake.set()
        heard_asleep, self._heard = self._heard, []
        for event in heard_asleep:
            self._take_in(event)

    def _now(self) -> int:
        return round(self.world.loop.now * 1000)

    def _carry_out(self, command: commands.Command) -> None:  # noqa: C901 - a table
        match command:
            case commands.StartAttempt(run=run):
                self.world.starts(self, run)
                self._attempts[run.task] = attempt = Attempt(run, asyncio.Event())
                self.world.outlives(self._begin(attempt))
            case commands.LetBegin(task=task):
                self._attempts[task].gate.set()
            case commands.Watch(run=run):
                self.queries.watch(bare_order(run), run.handle)
            case commands.TakeOver(run=run):
                self.queries.take_over(bare_order(run), run.handle)
            case commands.StopWatching(tasks=tasks):
                self.queries.let_go(tasks)
            case commands.StopAttempts(tasks=tasks, reason=reason):
                for task in self.queries.stop(tasks, reason):
                    self._attempts[task].stopping = True
            case commands.EndOrphan(status=status):
                ended = replaced(status, state=TaskState.STOPPED)
                self.queries.end(status.task, status.handle, lambda: self._say(ended), still=lambda: True)
            case commands.WriteStart(status=status, number=number):
                self._say(status, events.StartWritten, number)
            case commands.WriteEnd(status=status, number=number):
                self._say(status, events.EndWritten, number)
            case commands.WriteStatus(status=status) | commands.WriteStopped(status=status):
                self._say(status)
            case commands.ReleaseStopped(tasks=tasks) | commands.ReleaseFinished(tasks=tasks):
                self.mine -= tasks
            case commands.ArmTimer(at_ms=at_ms):
                self.world.loop.call_at(at_ms / 1000, lambda: self.feed(events.TimerFired))

    def _say(self, status: TaskStatus, answer: type[events.Event] | None = None, number: int = 0) -> None:
        def stored() -> None:
            self.world.write(status)
            if answer is not None:
                self.feed(answer, task=status.task, number=number)

        self._writing.put_nowait(stored)

    async def _write(self) -> None:
        """Store one record after the other."""
        while True:
            stored = await self._writing.get()
            await self.world.moment()
            await self.awake.wait()
            stored()

    # ---- the thread of an attempt, as in the runner for Spark Connect servers

    async def _begin(self, attempt: Attempt) -> None:
        """Run an attempt. If the process sleeps, each step may be late; if it was killed, what it has sent may arrive
        late.
        """
        run = attempt.run
        session = f"{run.task}#{run.attempt}"
        former = f"{run.task}#{run.attempt - 1}"
        found: dict[str, Any] | None = None
        life: int | None = None
        try:
            await self._step()
            await self._end_session(former)
            await self._step()
            if session in self.own.open | self.own.closed:
                await self._end_session(session)
                session = f"{session} of {self.worker} {self.number}-{self.world.loop.now}"
            life = self.own.begin(session)
            handle_of = QueryHandle(server=self.own.server, session_id=session)
            self.feed(runner.TaskStarted, task=run.task, handle=handle_of.to_json())
            await self._gate(attempt, life)
            await self._step(sent=True)
            query = await self._start(attempt, session, life)
            found = replace(handle_of, query_id="q", run_id=query.run_id).to_json()
            await self._step()
            if attempt.stopping:
                found = await self._left_open(session, found, life)
        except (RefusedError, AwayError, QueryNotStoppedError):
            found = await self._left_open(session, found, life)
        if self._attempts.get(run.task) is attempt:
            del self._attempts[run.task]
        if self.dead:
            return
        if found is not None:
            self.feed(runner.QueryDetached, task=run.task, handle=found)
        elif attempt.stopping:
            self.feed(runner.TaskStopped, task=run.task, reason="")
        else:
            self.feed(runner.SparkLost, task=run.task, spark=1, error="gone")

    async def _start(self, attempt: Attempt, session: str, life: int) -> Query:
        """Start the query. If the attempt is told to stop, wait until its start has ended."""
        if attempt.stopping:
            raise RefusedError("it was told to stop")
        checkpoint = self.world.checkpoint_of(attempt.run.task)
        moment = partial(self.world.moment, late=True)
        return await asyncio.shield(self.world.outlives(self.own.start(session, checkpoint, life, moment)))

    async def _end_session(self, session: str) -> None:
        calls = CallsOfServer(self.own, self.world.chance)
        await end_session(calls, QueryHandle(server=self.own.server, session_id=session), timeout_s=30.0)

    async def _left_open(self, session: str, found: dict[str, Any] | None, life: int | None) -> dict[str, Any] | None:
        """The handle of what may still be running in the session. If the server has ended under the attempt, it is not
        asked.

        :param life: the life of the server that the attempt knows; None: the session was never opened
        """
        if life is not None and life != self.own.life:
            return found or QueryHandle(server=self.own.server, session_id=session).to_json()
        try:
            await self._end_session(session)
        except QueryNotStoppedError:
            return found or QueryHandle(server=self.own.server, session_id=session).to_json()
        return None

    async def _gate(self, attempt: Attempt, life: int) -> None:
        while not attempt.gate.is_set():
            if attempt.stopping:
                raise RefusedError("it was told to stop")
            if life != self.own.life:
                raise RefusedError("its server has ended")
            if self.dead:
                await asyncio.Event().wait()  # a killed process does nothing more
            await asyncio.sleep(0.1)

    async def _step(self, *, sent: bool = False) -> None:
        """:param sent: the request has left the process, so killing the process does not stop it"""
        if self.dead:
            await asyncio.Event().wait()
        await self.awake.wait()
        await self.world.moment(late=sent)
        if self.dead and not sent:
            await asyncio.Event().wait()

    async def _settings_of(self, handle: QueryHandle) -> ConnectSettings:
        return ConnectSettings(server=handle.server)

    def _make_watch(self, settings: ConnectSettings, hear: Callable[[WatchEvent], None]) -> WatchOfServer:
        return WatchOfServer(self.world.server(settings.server), hear, self.world.chance)

    def _spawn(self, work: Any) -> None:
        self._background.add(asyncio.ensure_future(work))
