"""Runs one order, from its entry point to its last event. Uses neither threads nor PySpark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider.spark.attempts.blame import (
    Blame,
    NobodyToBlame,
    SparkToBlame,
    TaskToBlame,
    WorkerToBlame,
    WriterToBlame,
    blame,
)
from airflow_provider.spark.attempts.failures import (
    ForgottenQueryError,
    Mask,
    Printed,
    ResultError,
    UnboundedError,
    describe,
    nothing_secret,
)
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
from airflow_provider.spark.job.allowed_applications import NO_APPLICATIONS, AllowedApplications
from airflow_provider.spark.job.config_schema import config_schema_to_publish
from airflow_provider.spark.job.fencing import AttemptGuard
from airflow_provider.spark.job.loading import check_allowed, load_job
from airflow_provider.spark.job.planning import make_plan
from airflow_provider.spark.limits import within_limits
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage
from airflow_provider.spark.local.isolation.forks import only_in_this_process
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.raised import is_of_job
from airflow_provider.spark.runner import (
    LastEvent,
    LineageNamed,
    OnEvent,
    QueryDetached,
    QueryStarted,
    SparkAbsent,
    SparkFaltered,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.state.records.json_value import NotJsonError, to_small_json_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

MAX_RESULT_BYTES: Final = 64 * 1024
"""A result is for people and sensors; data belongs in a table."""


class TaskSession(Protocol):
    """The Spark session of one attempt. Used only in the attempt's thread, except :meth:`cancel`."""

    def open(self) -> SparkSession:
        """The attempt's own session, opened with the first call. Each call shares the job's code with Spark as it is.

        :raises Exception: if Spark can't be started or reached
        """

    def query_id(self, value: object) -> str | None:
        """The id of ``value`` if it is a streaming query; None if it is something else.

        :raises ForeignQueryError: if it runs in a session that the worker does not know
        """

    def left_running(self, value: object) -> str | None:
        """A message about the queries that would outlive the attempt if it did not wait for them: ``value``, unless it
        ends by itself, and all others in the session; None: there are none.

        :param value: what ``run`` has returned
        """

    def await_query(self, query: Any, tell: Callable[[QueryProgress | QueryMoves], None]) -> Any:
        """Wait until the query ends, and return the result of its task.

        :param tell: called with the query's progress from time to time
        :raises Exception: if the query failed
        """

    def explain(self, error: BaseException) -> BaseException:
        """``error``, or a plainer one if Spark itself is the reason."""

    def share(self, name: str, make: Callable[[], DataFrame], guard: TaskGuard) -> DataFrame:
        """The data that ``make`` returns, made once for all tasks that ask for this name, and cached.

        :raises FencedError: if the task is told to stop while it waits for the data
        """

    def prepare_stream(self, location: str, guard: TaskGuard) -> Iterator[float]:
        """Make Spark ready for any stream with the checkpoint at ``location``. Yields the progress, from 0 to 1."""

    def rehearse(self, stream: DataStreamWriter, location: str, guard: TaskGuard) -> Iterator[float]:
        """Run the query on a copy of the checkpoint at ``location``, again and again until it starts no faster. Yields
        the progress, from 0 to 1.
        """

    def cancel(self) -> None:
        """Cancel the attempt's Spark jobs and stop its queries. Callable from any thread, and repeatedly."""

    @property
    def handle(self) -> Any:
        """The handle of the query that may outlive this process, as far as it is known now; any JSON value. None: no
        query may.
        """

    def let_go_on(self, query: Any) -> bool:
        """Detach this query or driver, if it may outlive this process: :meth:`close` then leaves it alone.

        :return: whether it is detached
        """

    @property
    def left_open(self) -> bool:
        """After :meth:`close`: whether a query may still be running without this process."""

    def close(self) -> None:
        """Stop what the attempt has left running, and free its resources."""


def run_attempt(
    order: TaskOrder,
    guard: AttemptGuard,
    session: TaskSession,
    allowed: Iterable[str],
    emit: OnEvent,
    mask: Mask = nothing_secret,
    job: SparkJob | None = None,
    applications: AllowedApplications = NO_APPLICATIONS,
) -> LastEvent:
    """Run ``order`` to its end; never raises. None of the job's code is called before the start is stored, not even to
    import it: if it ends this process, others must know what was running.

    If an attempt was told to stop before its end, it counts as stopped, however it ended: its result may be incomplete.

    :param mask: removes secrets from error messages
    :param job: the job object that was warmed up in this session; None: make a new one
    :param applications: which ones the worker lets tasks submit
    """
    try:
        try:
            with only_in_this_process(mask):
                if order.task.is_planner:
                    last: LastEvent = _plan(order, guard, session, allowed, emit, mask)
                else:
                    task = task_context(order, guard, session, applications=applications)
                    last = _run(order, guard, session, allowed, emit, mask, job, task)
        finally:
            session.close()
        if guard.stopping:
            last = TaskStopped(order=order, reason=guard.reason)
    except BaseException as error:  # noqa: BLE001  the top of the attempt's thread: sys.exit() in a job ends here, too
        stopped = guard.reason if guard.stopping else lease_over(guard)
        if stopped:
            log.debug("Task %s ended while stopping: %s", order.task, Printed(error, mask))
            last = TaskStopped(order=order, reason=stopped)
        else:
            last = ended_by(blame(error, session.explain, mask), order)
    if not session.left_open:
        return last
    otherwise = None if isinstance(last, TaskFinished) else last
    return QueryDetached(order=order, handle=session.handle, otherwise=otherwise)


def ended_by(verdict: Blame, order: TaskOrder) -> LastEvent:
    """The last event of an attempt that has ended with an error."""
    match verdict:
        case TaskToBlame(error=error, traceback=traceback, retryable=retryable):
            return TaskFailed(order=order, error=error, traceback=traceback, retryable=retryable)
        case WorkerToBlame(error=error):
            return SparkAbsent(order=order, error=error)
        case SparkToBlame(spark=spark, error=error, traceback=traceback):
            return SparkLost(order=order, spark=spark, error=error, traceback=traceback)
        case WriterToBlame(error=error, traceback=traceback):
            return TaskConflicted(order=order, error=error, traceback=traceback)
        case NobodyToBlame(error=error, traceback=traceback, lasts=lasts):
            return SparkFaltered(order=order, error=error, traceback=traceback, lasts=lasts)


def lease_over(guard: AttemptGuard) -> str | None:
    """Why the attempt may not write any more; None: it may. If not, its error is not a failure of the task, which
    another worker may own.
    """
    try:
        guard.check_lease()
    except FencedError as fenced:
        return str(fenced)
    return None


def _plan(
    order: TaskOrder, guard: AttemptGuard, session: TaskSession, allowed: Iterable[str], emit: OnEvent, mask: Mask
) -> TaskFinished:
    guard.begin()
    emit(TaskStarted(order=order))
    guard.wait_until_told()
    with only_in_this_process(mask):
        job = load_job(order.entry_point, allowed)
    plan = make_plan(job, _job_context(order, session.open))
    schema = config_schema_to_publish(job, mask)
    return TaskFinished(order=order, result=plan, stateful=is_stateful(job), config_schema=schema)


def _run(
    order: TaskOrder,
    guard: AttemptGuard,
    session: TaskSession,
    allowed: Iterable[str],
    emit: OnEvent,
    mask: Mask,
    job: SparkJob | None,
    task: TaskContext,
) -> TaskFinished:
    check_allowed(order.entry_point, allowed)
    with within_limits("open a Spark session"):
        session.open()
    guard.begin()
    emit(TaskStarted(order=order, handle=session.handle))
    guard.wait_until_told()
    with only_in_this_process(mask):
        job = job or load_job(order.entry_point, allowed)
        named = _named_by(job, task, order, mask)
    if named != NOTHING_NAMED:
        emit(LineageNamed(order=order, lineage=named))
    spark = session.open()  # once more: it shares what the import of the job has added to the path
    with only_in_this_process(mask):  # what follows asks Spark
        value = job.run(spark, task)
    result = _result_of(order, guard, session, value, emit)
    return TaskFinished(order=order, result=result, wrote=task.writes.told)


def _result_of(order: TaskOrder, guard: AttemptGuard, session: TaskSession, value: Any, emit: OnEvent) -> Any:
    if isinstance(value, DriverHandle) and (guard.moves or session.let_go_on(value)):
        return None  # the task's next worker finds the driver; whoever stops the task otherwise has it killed
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
    """What the task reads and writes, as its job declares it. If this fails, the task runs nevertheless."""
    try:
        named = job.lineage(task)
    except BaseException as wrong:
        if not is_of_job(wrong):
            raise
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
    order: TaskOrder,
    guard: TaskGuard,
    session: TaskSession,
    rehearsing: Rehearse = rehearse_nothing,
    applications: AllowedApplications = NO_APPLICATIONS,
) -> TaskContext:
    """What the job's code is told about its task."""
    return TaskContext(
        job=order.task.job,
        index=order.task.index,
        config=order.config,
        epoch=order.epoch,
        attempt=order.attempt,
        run_key=order.run_key,
        fingerprint=order.fingerprint,
        checkpoint_location=order.checkpoint_location,
        guard=guard,
        share=session.share,
        rehearsing=rehearsing,
        applications=applications,
    )
