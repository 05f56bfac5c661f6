"""One run of one order, from its entry point to its last event. Knows no threads and no PySpark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider.driver.errors import SparkGoneError, SparkStartError
from airflow_provider.driver.query_progress import QueryProgress
from airflow_provider.records.json_value import NotJsonError, to_small_json_value
from airflow_provider.spark.entry_point import load_job
from airflow_provider.spark.failures import (
    ForgottenQueryError,
    Mask,
    ResultError,
    UnboundedError,
    describe,
    is_retryable,
    nothing_secret,
    traceback_tail,
)
from airflow_provider.spark.fencing import AttemptGuard
from airflow_provider.spark.job import (
    FencedError,
    JobContext,
    Rehearse,
    SparkJob,
    TaskContext,
    TaskGuard,
    is_stateful,
    rehearse_nothing,
)
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage
from airflow_provider.spark.planning import make_plan
from airflow_provider.spark.runner import (
    LastEvent,
    OnEvent,
    QueryDetached,
    QueryStarted,
    SparkAbsent,
    SparkLost,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

MAX_RESULT_BYTES: Final = 64 * 1024
"""A result is for people and sensors to look at; data belongs into a table."""


class TaskSession(Protocol):
    """The Spark that one attempt sees. Used in the attempt's thread, but for :meth:`cancel`."""

    def open(self) -> SparkSession:
        """The attempt's own session, made at the first call.

        :raises Exception: if Spark cannot be started
        """

    def query_id(self, value: object) -> str | None:
        """The id of the streaming query that ``value`` is; None if it is something else.

        :raises ForeignQueryError: if it runs where this session can't be used to end it
        """

    def left_running(self, value: object) -> str | None:
        """Which queries would outlast the attempt if it waited for none, in words: ``value``, which ``run`` has
        returned, if it does not end by itself, and whatever else runs in the session; None if there are none.
        """

    def await_query(self, query: Any, tell: Callable[[QueryProgress], None]) -> Any:
        """Wait until the query ends; what to report of it.

        :param tell: called from time to time with how far it is

        :raises Exception: if the query failed
        """

    def explain(self, error: BaseException) -> BaseException:
        """``error``, or the plainer one behind it if Spark itself is gone."""

    def share(self, name: str, make: Callable[[], DataFrame], guard: TaskGuard) -> DataFrame:
        """What ``make`` gives, made once for all who ask for this name, and cached.

        :raises FencedError: if the task is told to stop while it waits for that
        """

    def rehearse(self, stream: DataStreamWriter, location: str, guard: TaskGuard) -> Iterator[float]:
        """Run the query on a copy of the checkpoint at ``location``, until it starts no faster."""

    def cancel(self) -> None:
        """Cancel the attempt's Spark jobs and stop its queries; from any thread, as often as one likes."""

    @property
    def handle(self) -> Any:
        """By which is found what may go on without this process, as it is now, any JSON value; None: nothing does."""

    def let_go_on(self, query: Any) -> bool:
        """Whether this query goes on without this process: then :meth:`close` leaves it alone."""

    @property
    def left_open(self) -> bool:
        """After :meth:`close`: whether something may go on without this process."""

    def close(self) -> None:
        """Stop what the attempt left running, and give back what it held."""


def run_attempt(
    order: TaskOrder,
    guard: AttemptGuard,
    session: TaskSession,
    allowed: Iterable[str],
    emit: OnEvent,
    mask: Mask = nothing_secret,
    job: SparkJob | None = None,
) -> LastEvent:
    """Run ``order`` to its end; never raises. What is said of an error goes through ``mask``.

    :param job: that was warmed up for it in this session; None: it is made anew

    An attempt that was told to stop before its end has stopped, however it ended: what it returns may be half of the
    work.
    """
    last = _run_and_close(order, guard, session, allowed, emit, mask, job)
    return QueryDetached(order=order, handle=session.handle) if session.left_open else last


def _run_and_close(
    order: TaskOrder,
    guard: AttemptGuard,
    session: TaskSession,
    allowed: Iterable[str],
    emit: OnEvent,
    mask: Mask,
    job: SparkJob | None,
) -> LastEvent:
    try:
        try:
            job = job or load_job(order.entry_point, allowed)
            finished = _run(order, guard, session, job, emit, mask)
        finally:
            session.close()
    except BaseException as error:  # the top of the attempt's thread: sys.exit() in a job ends here, too
        stopped = guard.reason if guard.stopping else _lease_over(guard)
        if stopped:
            log.debug("Task %s ended while stopping", order.task, exc_info=error)
            return TaskStopped(order=order, reason=stopped)
        return _failure(order, session, error, mask)
    if guard.stopping:
        return TaskStopped(order=order, reason=guard.reason)
    return finished


def _failure(order: TaskOrder, session: TaskSession, error: BaseException, mask: Mask) -> LastEvent:
    try:
        plain = session.explain(error)
        if isinstance(plain, SparkGoneError):
            return spark_lost(order, plain, mask)
        if isinstance(plain, SparkStartError):
            return SparkAbsent(order=order, error=describe(plain, mask))
        return TaskFailed(
            order=order,
            error=describe(plain, mask),
            traceback=traceback_tail(plain, mask),
            retryable=is_retryable(plain),
        )
    except Exception as wrong:  # noqa: BLE001  whatever cannot be said of it, the attempt has ended
        short = f"{type(error).__name__}; its message can't be shown, because that failed with {type(wrong).__name__}"
        return TaskFailed(order=order, error=short, traceback="", retryable=is_retryable(error))


def spark_lost(order: TaskOrder, gone: SparkGoneError, mask: Mask) -> SparkLost:
    """That an attempt has ended because its Spark has. What its code met with then is no cause of that."""
    error = mask(f"{type(gone).__name__}: {gone}")
    return SparkLost(order=order, spark=gone.spark, error=error, traceback=traceback_tail(gone, mask))


def _lease_over(guard: AttemptGuard) -> str | None:
    """Why the attempt may not write any more. Then its error is no failure of the task: another worker may own it."""
    try:
        guard.check_lease()
    except FencedError as fenced:
        return str(fenced)
    return None


def _run(
    order: TaskOrder, guard: AttemptGuard, session: TaskSession, job: SparkJob, emit: OnEvent, mask: Mask
) -> TaskFinished:
    if order.task.is_planner:
        guard.begin()
        emit(TaskStarted(order=order))
        plan = make_plan(job, _job_context(order, session.open))
        return TaskFinished(order=order, result=plan, stateful=is_stateful(job))
    spark = session.open()
    task = task_context(order, guard, session)
    guard.begin()
    handle = session.handle
    emit(TaskStarted(order=order, lineage=_named_by(job, task, order, mask), handle=handle))
    if handle is not None:
        guard.wait_until_told()
    result = _result_of(order, guard, session, job.run(spark, task), emit)
    return TaskFinished(order=order, result=result, wrote=task.writes.told)


def _result_of(order: TaskOrder, guard: AttemptGuard, session: TaskSession, value: Any, emit: OnEvent) -> Any:
    left = session.left_running(value) if order.bounded else None
    if left is not None:
        raise UnboundedError(left)
    query_id = session.query_id(value)
    if query_id is not None:
        if not guard.stopping and session.let_go_on(value):
            return None
        emit(QueryStarted(order=order, query_id=query_id))
        return session.await_query(value, lambda progress: emit(TaskProgressed(order=order, progress=progress)))
    left = None if guard.stopping else session.left_running(value)
    if left is not None:
        raise ForgottenQueryError(left)
    try:
        return to_small_json_value(value, MAX_RESULT_BYTES)
    except NotJsonError as error:
        raise ResultError(
            f"the result of task {order.label} cannot be written into its status record: {error};"
            " return None, or a small dict of numbers and strings"
        ) from None


def _named_by(job: SparkJob, task: TaskContext, order: TaskOrder, mask: Mask) -> Lineage:
    """A job that can't say what it reads and writes is run all the same."""
    try:
        named = job.lineage(task)
    except Exception as wrong:  # noqa: BLE001  whatever the job's code raises
        problem = describe(wrong, mask)
    else:
        if isinstance(named, Lineage):
            return named
        problem = f"it returned a {type(named).__qualname__}, not a Lineage"
    log.warning("No lineage of task %s, because of its job's lineage(): %s", order.label, problem)
    return NOTHING_NAMED


def _job_context(order: TaskOrder, spark_provider: Callable[[], SparkSession]) -> JobContext:
    return JobContext(
        name=order.task.job,
        config=order.config,
        max_tasks=order.max_tasks,
        run_key=order.run_key,
        spark_provider=spark_provider,
    )


def task_context(
    order: TaskOrder, guard: TaskGuard, session: TaskSession, rehearsing: Rehearse = rehearse_nothing
) -> TaskContext:
    """What the job's code knows of its task."""
    return TaskContext(
        job=order.task.job,
        index=order.task.index,
        config=order.config,
        epoch=order.epoch,
        attempt=order.attempt,
        run_key=order.run_key,
        checkpoint_location=order.checkpoint_location,
        guard=guard,
        share=session.share,
        rehearsing=rehearsing,
    )
