"""The runner of attached tasks: each has a thread of this process and a Spark session."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from airflow_provider.spark.attempts.failures import Mask, nothing_secret, why_no_spark
from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job import SparkJob
from airflow_provider.spark.job.allowed_applications import NO_APPLICATIONS, AllowedApplications
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease, Lease
from airflow_provider.spark.job.loading import load_job
from airflow_provider.spark.job.planning import SESSION_KEY
from airflow_provider.spark.limits import UsedUpError
from airflow_provider.spark.local.spark_state import LOOK_S, Sight
from airflow_provider.spark.runner import (
    LastEvent,
    NoSparkToWarmUp,
    OnEvent,
    RunnerClosedError,
    RunnerEvent,
    ServersSilent,
    SparkAbsent,
    SparkEnded,
    StillRunningError,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
    WarmUpEnd,
    WarmUpEvent,
    WarmUpLost,
)
from airflow_provider.spark.runners.attached_tasks.attached_attempt import AttachedAttempt
from airflow_provider.spark.runners.attached_tasks.progress_polling import ProgressPolling, all_done
from airflow_provider.spark.runners.attached_tasks.sessions import AttachedSession, Spark, Sparks
from airflow_provider.spark.runners.attached_tasks.warming import Warming
from airflow_provider.spark.runners.attached_tasks.worker_logging import outlive_handlers
from airflow_provider.spark.runners.attached_tasks.worker_process import WorkerProcess
from airflow_provider.spark.runners.no_session import NoSession
from airflow_provider.spark.runners.threads import in_thread, start_thread
from airflow_provider.values.deadlines import Deadline
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId, Tasks

log = logging.getLogger(__name__)

_FOR_SPARK: Final = 1 / 3
"""The part of the time for closing that is kept for the end of Spark, however long the tasks take."""
_STEP_S: Final = 5.0
"""How long an attempt waits for its warm-up to stop. After that it starts without the warm-up."""


class AttachedRunner:
    """Runs tasks in threads of this process (a :class:`~airflow_provider.spark.runner.Runner`).

    When a task is told to stop, its Spark jobs are cancelled and its queries stopped, repeatedly until its thread ends.
    Before that, a query may complete its current batch, if this is quick and the lease holds. Python code that does not
    check ``task.stopping`` can't be ended from outside: the task is reported as running until it really ends. A task
    that still waits for Spark to start counts as stopped immediately, because other workers may be waiting for it; its
    thread continues to wait.

    A warm-up has a thread and a session, too, and the attempt of its task continues in both. The attempt does not wait
    for the end of the warm-up, but tells it to stop. If it does not stop, the attempt starts without it.

    :param on_event: called with the events of the tasks
    :param allowed: import prefixes of entry points (see :mod:`airflow_provider.spark.job.loading`)
    :param lease: what ``task.fence()`` checks
    :param sparks: gives the tasks their sessions
    :param mask: removes secrets from error messages
    :param on_condition: called when :attr:`condition` or :attr:`spark_ui` has changed
    :param tell_every_s: report a task's progress at most this often, in seconds
    :param applications: which ones tasks may submit to Spark
    """

    def __init__(
        self,
        on_event: OnEvent,
        *,
        allowed: Iterable[str],
        sparks: Sparks,
        lease: Lease | None = None,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
        tell_every_s: float = 30.0,
        applications: AllowedApplications = NO_APPLICATIONS,
    ) -> None:
        self.spark_ui = ""
        self._stands_still = ""
        self._awaits_spark = False
        self._on_condition = on_condition
        self._watching: asyncio.Task[None] | None = None
        self._waited = False
        self._server_is_silent = False
        self._on_event = on_event
        self._allowed = tuple(allowed)
        self._lease: Lease = lease or EndlessLease()
        self._sparks = sparks
        self._applications = applications
        self._mask = mask
        self._attempts: dict[TaskId, AttachedAttempt] = {}
        self._abandoned: set[AttachedAttempt] = set()
        self._warming: dict[TaskId, Warming] = {}
        self._learning: set[asyncio.Future[None]] = set()
        self._progress = ProgressPolling(lambda: list(self._attempts.values()), self._heard, every_s=tell_every_s)
        self._process = WorkerProcess.as_it_is()
        self._log_as_python_does = outlive_handlers()
        self._closed = False

    @property
    def running(self) -> Tasks:
        return frozenset(self._attempts)

    @property
    def condition(self) -> str:
        return self._stands_still or (self._sparks.opening.value if self._awaits_spark else "")

    @property
    def opening(self) -> bool:
        return any(map(_awaits_spark, itertools.chain(self._attempts.values(), self._abandoned)))

    async def start(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"task {order.task} can't be started: the runner is closed")
        if order.task in self._attempts:
            raise StillRunningError(f"task {order.task} is still running here; stop it first")
        self._process.put_back()  # threads may have gone on since nothing runs here any more
        warming = self._warming.pop(order.task, None)
        if warming is None or not self._hand_over(warming, order):
            self._start_cold(self._attempt_at(order, self._session(order)))
        self._watch_on()
        self._progress.go_on()

    def warm(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"task {order.task} can't be warmed up: the runner is closed")
        self.stop_warming(order.task)
        loop = asyncio.get_running_loop()
        warming = self._warming[order.task] = Warming(order, self._session(order), loop.create_future())
        self._learning.add(warming.ended)
        warming.ended.add_done_callback(self._learning.discard)
        try:
            start_thread(lambda: self._learn(warming, loop), f"learn-{order.task}")
        except UsedUpError as error:
            warming.ended.set_result(None)
            absent = NoSparkToWarmUp(order=order, error=why_no_spark(error, self._mask))
            loop.call_soon(self._heard_of_warm_up, warming, absent)
        self._watch_on()

    def stop_warming(self, task: TaskId) -> None:
        warming = self._warming.pop(task, None)
        if warming is not None:
            warming.drop()

    def proceed(self, task: TaskId) -> None:
        if task in self._attempts:
            self._attempts[task].guard.proceed()

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
                "Still running %.3g s after they were told to stop (%s): %s; their code does not look at task.stopping",
                timeout_s,
                reason,
                ", ".join(sorted(order.label for order in still)),
            )
        return left

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:
        deadline = Deadline(timeout_s)
        if self._closed:
            return self.running
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        self._progress.close()
        for task in list(self._warming):
            self.stop_warming(task)
        stopping_s = deadline.left_s(but_s=timeout_s * _FOR_SPARK)
        left = await self.stop(self.running, "the worker is closing", timeout_s=stopping_s)
        ending = [attempt.ended for attempt in self._abandoned] + list(self._learning)
        if ending:
            await asyncio.wait(ending, timeout=deadline.left_s(but_s=timeout_s * _FOR_SPARK))
        await self._sparks.release(timeout_s=deadline.left_s())
        self._log_as_python_does()
        return left

    def lease_left_s(self) -> float | None:
        """For how many seconds nobody else can own what runs here; None: nothing does. Any thread may ask."""
        return min((attempt.guard.lease_left_s() for attempt in [*self._attempts.values()]), default=None)

    # ---- attempts and warm-ups, and their threads

    def _session(self, order: TaskOrder) -> AttachedSession:
        return NoSession() if order.config.get(SESSION_KEY) is False else self._sparks.session(order)

    def _attempt_at(self, order: TaskOrder, session: AttachedSession) -> AttachedAttempt:
        ended = asyncio.get_running_loop().create_future()
        attempt = self._attempts[order.task] = AttachedAttempt(order, AttemptGuard(self._lease), session, ended)
        return attempt

    def _start_cold(self, attempt: AttachedAttempt) -> None:
        loop = asyncio.get_running_loop()
        try:
            start_thread(lambda: self._run(attempt, loop), f"task-{attempt.order.task}")
        except UsedUpError as error:
            absent = SparkAbsent(order=attempt.order, error=why_no_spark(error, self._mask))
            loop.call_soon(self._heard, attempt, absent)

    def _hand_over(self, warming: Warming, order: TaskOrder) -> bool:
        """:returns: whether the attempt continues with the warm-up"""
        if not warming.fits(order):
            warming.drop()
            return False
        attempt = self._attempt_at(order, warming.session)
        if not warming.hand_to(attempt):
            return False
        asyncio.get_running_loop().call_later(_STEP_S, self._do_without, warming, attempt)
        return True

    def _do_without(self, warming: Warming, attempt: AttachedAttempt) -> None:
        if not self._closed and warming.take_back(attempt):
            log.warning("The warm-up of %s does not stop; the task starts without it", attempt.order.label)
            attempt.session = self._session(attempt.order)
            self._start_cold(attempt)

    def _run(self, attempt: AttachedAttempt, loop: asyncio.AbstractEventLoop, job: SparkJob | None = None) -> None:
        def emit(event: RunnerEvent) -> None:
            self._tell(loop, self._heard, attempt, event)

        last = run_attempt(
            attempt.order, attempt.guard, attempt.session, self._allowed, emit, self._mask, job, self._applications
        )
        if isinstance(last, TaskFinished) and (counts := all_done(attempt)) is not None:
            emit(TaskProgressed(order=attempt.order, progress=counts))
        attempt.thread_ended.set()
        if attempt.guard.stopping:
            attempt.guard.stop(attempt.guard.reason)  # a cancelled batch may still be about to write
        emit(attempt.last_word(last, self._mask))

    def _learn(self, warming: Warming, loop: asyncio.AbstractEventLoop) -> None:
        def emit(event: WarmUpEvent) -> None:
            self._tell(loop, self._heard_of_warm_up, warming, event)

        heir = warming.run(lambda: load_job(warming.order.entry_point, self._allowed), emit, self._mask)
        if heir is not None and warming.session.spark is not None and warming.session.spark.alive:
            self._run(heir.attempt, loop, heir.job)
        else:
            warming.close()
            if heir is not None:
                heir.attempt.session = self._session(warming.order)
                self._run(heir.attempt, loop)
        self._tell(loop, warming.ended.set_result, None)

    def _tell(self, loop: asyncio.AbstractEventLoop, hear: Callable[..., object], *what: object) -> None:
        """Call this in the thread of the event loop."""
        try:
            loop.call_soon_threadsafe(hear, *what)
        except RuntimeError:
            log.warning("The event loop is closed; this event is dropped: %s", self._mask(str(what[-1])))

    def _heard_of_warm_up(self, warming: Warming, event: WarmUpEvent) -> None:
        """Pass the event on, unless the warm-up was dropped meanwhile."""
        if self._warming.get(warming.order.task) is warming:
            if isinstance(event, WarmUpEnd):
                del self._warming[warming.order.task]
            self._on_event(event)

    # ---- watching Spark

    def _watch_on(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        """Check Spark regularly while anything runs."""
        while self._attempts or self._warming:
            await asyncio.sleep(LOOK_S)
            self._process.put_back()
            self._look_who_awaits_spark()
            sparks = {attempt.session.spark for attempt in self._attempts.values()}
            sparks |= {warming.session.spark for warming in self._warming.values()}
            sights = [await self._look_at(spark) for spark in filter(None, sparks)]
            self._servers_are(silent=Sight.SILENT in sights)
        self._servers_are(silent=False)
        self._waited = False
        self._look_who_awaits_spark()
        self._is_in("")

    async def _look_at(self, spark: Spark) -> Sight | None:
        try:
            sight = await in_thread(functools.partial(self._sparks.look_at, spark), "spark-look")
            self._saw(spark, sight)
        except Exception:
            log.exception("Could not check this worker's Spark; trying again")
            return None
        return sight

    def _servers_are(self, *, silent: bool) -> None:
        if silent is not self._server_is_silent:
            self._server_is_silent = silent
            self._on_event(ServersSilent(silent=silent, detached=False))

    def _saw(self, spark: Spark, sight: Sight) -> None:
        if sight is Sight.ENDED:
            mine = (attempt for attempt in self._attempts.values() if attempt.session.spark is spark)
            lost = [attempt for attempt in mine if not attempt.guard.stopping]
            gone = spark.gone()
            if lost:
                ending = in_short([attempt.order.label for attempt in lost], most=5)
                log.info("%s; its tasks end: %s", self._mask(str(gone)), ending)  # a warning comes when they have ended
            ended = frozenset(attempt.order.task for attempt in lost if attempt.lose(gone))
            if ended:
                self._on_event(SparkEnded(spark=gone.spark, tasks=ended))
            for warming in [each for each in self._warming.values() if each.session.spark is spark]:
                self.stop_warming(warming.order.task)
                self._on_event(WarmUpLost(order=warming.order, spark=spark.number))
        self._has_ui("" if sight is Sight.ENDED else spark.ui)
        waits = sight in (Sight.WAITING, Sight.MASTERLESS, Sight.SILENT)
        self._is_in(sight.value if waits and self._waited else "")  # the first executor may still be starting
        self._waited = waits

    def _look_who_awaits_spark(self) -> None:
        """An attempt that has just been started gets its session in a moment, so it does not count as waiting yet."""
        before = time.monotonic() - LOOK_S
        awaited = any(_awaits_spark(attempt) and attempt.since <= before for attempt in self._attempts.values())
        if awaited is not self._awaits_spark:
            self._awaits_spark = awaited
            self._on_condition()

    def _has_ui(self, address: str) -> None:
        if address != self.spark_ui:
            self.spark_ui = address
            self._on_condition()

    def _is_in(self, condition: str) -> None:
        if condition == self._stands_still:
            return
        if condition:
            log.warning("Spark is %s: its tasks make no progress", condition)
        else:
            log.info("Spark is no longer %s", self._stands_still)
        self._stands_still = condition
        self._on_condition()

    def _heard(self, attempt: AttachedAttempt, event: RunnerEvent) -> None:
        attempt.begun = attempt.begun or isinstance(event, TaskStarted)
        if self._awaits_spark:
            self._look_who_awaits_spark()
        if isinstance(event, LastEvent):
            self._process.put_back()
            attempt.ended.set_result(None)
            if attempt in self._abandoned:
                self._abandoned.discard(attempt)
                self._on_condition()  # nothing keeps this process for its Spark any more
                return
            del self._attempts[attempt.order.task]
        self._on_event(event)

    def _abandon(self, attempt: AttachedAttempt, reason: str) -> None:
        """Report a task as stopped that still waits for Spark. Its thread will find out that it may not begin."""
        del self._attempts[attempt.order.task]
        self._abandoned.add(attempt)
        self._on_event(TaskStopped(order=attempt.order, reason=reason))


def _awaits_spark(attempt: AttachedAttempt) -> bool:
    return not attempt.begun and attempt.session.spark is None
