"""A runner of attached tasks: one Spark application in this process, a thread and a session for each task."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final, TypeVar

from airflow_provider.protocol.model import TaskId, Tasks
from airflow_provider.spark.application import APPLICATION, POOLS, LocalSparkSettings, RunningSpark, SparkGoneError
from airflow_provider.spark.attempt import run_attempt, spark_lost
from airflow_provider.spark.failures import Mask, nothing_secret
from airflow_provider.spark.fencing import AttemptGuard, EndlessLease, Lease
from airflow_provider.spark.local_session import LocalSession, Pools
from airflow_provider.spark.runner import (
    LAST_EVENTS,
    LastEvent,
    OnEvent,
    RunnerClosedError,
    RunnerEvent,
    StillRunningError,
    TaskFailed,
    TaskOrder,
    TaskStopped,
)
from airflow_provider.spark.watch import LOOK_S, Sight, look_at

log = logging.getLogger(__name__)
T = TypeVar("T")

CANCEL_INTERVAL_S: Final = 0.2
"""How often a stopping task's Spark jobs are cancelled: it may start another right after one was cancelled."""


class _Attempt:
    """A running task: its thread, its session, and how to stop them."""

    def __init__(
        self, order: TaskOrder, guard: AttemptGuard, session: LocalSession, ended: asyncio.Future[None]
    ) -> None:
        self.order = order
        self.guard = guard
        self.session = session
        self.ended = ended
        self.thread_ended = threading.Event()
        self._lost: SparkGoneError | None = None

    def lose(self, gone: SparkGoneError) -> None:
        """Its Spark has ended, which its code may not notice by itself."""
        if not self.guard.stopping:
            self._lost = gone
            self.stop(str(gone))

    def last_word(self, last: LastEvent, mask: Mask) -> LastEvent:
        """What has become of it: not to be blamed for its Spark's end, whatever its code has made of that."""
        if self._lost is not None and isinstance(last, (TaskStopped, TaskFailed)):
            return spark_lost(self.order, self._lost, mask)
        return last

    def stop(self, reason: str) -> bool:
        """:returns: whether the job's code has been called; if not, it never will be"""
        told_before = self.guard.stopping
        begun = self.guard.stop(reason)
        if begun and not told_before:
            _start_thread(self._cancel_until_ended, f"stop-{self.order.task}")
        return begun

    def _cancel_until_ended(self) -> None:
        while not self.thread_ended.is_set():
            try:
                self.session.cancel()
            except Exception:
                log.exception("Could not cancel the Spark jobs of task %s; trying again", self.order.label)
            self.thread_ended.wait(CANCEL_INTERVAL_S)


class LocalRunner:
    """Runs tasks in this process (a :class:`~airflow_provider.spark.runner.Runner`).

    Spark starts with the first task that needs it. A task that is told to stop has its Spark jobs cancelled and its
    queries stopped, again and again until its thread ends. Python code that does not look at ``task.stopping`` cannot
    be ended from outside: such a task is reported as still running until it really ends. One that still waits for Spark
    to start has stopped immediately, though its thread goes on waiting: others may be waiting for the task.

    :param on_event: hears what becomes of the tasks
    :param allowed: import prefixes of entry points (see :mod:`airflow_provider.spark.entry_point`)
    :param lease: what ``task.fence()`` asks
    :param settings: how to start Spark
    :param mask: takes secrets out of what is said of errors
    :param on_condition: is called when :attr:`condition` has changed
    """

    attached: Final = True

    def __init__(
        self,
        on_event: OnEvent,
        *,
        allowed: Iterable[str],
        lease: Lease | None = None,
        settings: LocalSparkSettings | None = None,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
    ) -> None:
        self.condition = ""
        self._on_condition = on_condition
        self._watching: asyncio.Task[None] | None = None
        self._waited = False
        self._on_event = on_event
        self._allowed = tuple(allowed)
        self._lease: Lease = lease or EndlessLease()
        self._settings = settings or LocalSparkSettings()
        self._mask = mask
        self._pools = Pools(POOLS)
        self._attempts: dict[TaskId, _Attempt] = {}
        self._abandoned: set[_Attempt] = set()
        self._closed = False

    @property
    def running(self) -> Tasks:
        return frozenset(self._attempts)

    async def start(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"task {order.task} was to be started by a closed runner")
        if order.task in self._attempts:
            raise StillRunningError(f"task {order.task} is still running here; stop it first")
        loop = asyncio.get_running_loop()
        session = LocalSession(self, self._settings, self._pools, order.entry_point.partition(":")[0])
        attempt = _Attempt(order, AttemptGuard(self._lease), session, loop.create_future())
        self._attempts[order.task] = attempt
        _start_thread(lambda: self._run(attempt, loop), f"task-{order.task}")
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())

    async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:
        attempts = [self._attempts[task] for task in frozenset(tasks) if task in self._attempts]
        begun = [attempt for attempt in attempts if attempt.stop(reason)]
        for attempt in attempts:
            if attempt not in begun:
                self._abandon(attempt, reason)
        if begun:
            await asyncio.wait([attempt.ended for attempt in begun], timeout=timeout_s)
        still = [attempt.order for attempt in begun if not attempt.ended.done()]
        left = frozenset(order.task for order in still)
        if left:
            log.warning(
                "Still running %s s after they were told to stop (%s): %s; their code does not look at task.stopping",
                timeout_s,
                reason,
                ", ".join(sorted(order.label for order in still)),
            )
        return left

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:
        if self._closed:
            return self.running
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        left = await self.stop(self.running, "the worker is closing", timeout_s=timeout_s)
        if self._abandoned:
            await asyncio.wait([attempt.ended for attempt in self._abandoned], timeout=timeout_s)
        await release_spark(self, timeout_s=timeout_s)
        return left

    def _run(self, attempt: _Attempt, loop: asyncio.AbstractEventLoop) -> None:
        def emit(event: RunnerEvent) -> None:
            try:
                loop.call_soon_threadsafe(self._heard, attempt, event)
            except RuntimeError:
                log.warning("Nobody hears any more that %s", event)

        last = run_attempt(attempt.order, attempt.guard, attempt.session, self._allowed, emit, self._mask)
        attempt.thread_ended.set()
        emit(attempt.last_word(last, self._mask))

    async def _watch(self) -> None:
        """As long as anything runs."""
        while self._attempts:
            await asyncio.sleep(LOOK_S)
            sparks = {attempt.session.spark for attempt in self._attempts.values()}
            for spark in filter(None, sparks):
                try:
                    self._saw(spark, await in_thread(functools.partial(look_at, spark), "spark-look"))
                except Exception:
                    log.exception("Could not look at this worker's Spark; looking again")
        self._waited = False
        self._is_in("")

    def _saw(self, spark: RunningSpark, sight: Sight) -> None:
        if sight is Sight.ENDED:
            mine = (attempt for attempt in self._attempts.values() if attempt.session.spark is spark)
            lost = [attempt for attempt in mine if not attempt.guard.stopping]
            gone = spark.gone()
            if lost:
                log.warning("%s; its tasks end: %s", gone, ", ".join(attempt.order.label for attempt in lost))
            for attempt in lost:
                attempt.lose(gone)
        waits = sight is Sight.WAITING
        self._is_in(sight.value if waits and self._waited else "")  # a first executor may just be starting
        self._waited = waits

    def _is_in(self, condition: str) -> None:
        if condition == self.condition:
            return
        if condition:
            log.warning("Spark is %s: its tasks stand still", condition)
        else:
            log.info("Spark is not %s any more", self.condition)
        self.condition = condition
        self._on_condition()

    def _heard(self, attempt: _Attempt, event: RunnerEvent) -> None:
        if isinstance(event, LAST_EVENTS):
            attempt.ended.set_result(None)
            if attempt in self._abandoned:
                self._abandoned.discard(attempt)
                return
            del self._attempts[attempt.order.task]
        self._on_event(event)

    def _abandon(self, attempt: _Attempt, reason: str) -> None:
        """Its thread will find that it may not begin."""
        del self._attempts[attempt.order.task]
        self._abandoned.add(attempt)
        self._on_event(TaskStopped(order=attempt.order, reason=reason))


def _start_thread(target: Callable[[], None], name: str) -> None:
    """Daemons: code of a job that does not end must not keep the worker's process from ending."""
    threading.Thread(target=target, name=name, daemon=True).start()


async def release_spark(user: object, *, timeout_s: float = 30.0) -> None:
    """``user`` needs the process's Spark no more. Nobody waits for ever for one that does not stop."""
    try:
        await asyncio.wait_for(in_thread(lambda: APPLICATION.release(user), "spark-stop"), timeout_s)
    except asyncio.TimeoutError:
        log.warning("Spark has not stopped within %s s; it ends with this process", timeout_s)


async def in_thread(function: Callable[[], T], name: str) -> T:
    """What it returns or raises. Its thread keeps nobody from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Future[T]) -> None:
        if done.done():
            return
        error = outcome.exception()
        if error is None:
            done.set_result(outcome.result())
        else:
            done.set_exception(error)

    def run() -> None:
        outcome: Future[T] = Future()
        try:
            outcome.set_result(function())
        except Exception as failed:  # noqa: BLE001 - raised again where it is awaited
            outcome.set_exception(failed)
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    _start_thread(run, name)
    return await done
