"""The part of the process's Spark application that one task has: a session, a tag, a pool."""

from __future__ import annotations

import contextlib
import heapq
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider.spark.job import FencedError, TaskGuard
from airflow_provider.spark.job.session_conf import USUAL_CONF, AllowedConf, set_conf
from airflow_provider.spark.local.application.cluster import is_local
from airflow_provider.spark.local.application.spark_application import APPLICATION, LocalSparkSettings, RunningSpark
from airflow_provider.spark.local.counted_jobs import CountedJobs
from airflow_provider.spark.local.driver_jvm.jvm_lease import LeaseLeft
from airflow_provider.spark.local.driver_jvm.pulse import ends_soon
from airflow_provider.spark.local.isolation.cached_data import drop_what_was_cached, own_what_is_cached
from airflow_provider.spark.local.isolation.own_jobs import TASK_TAG_PREFIX
from airflow_provider.spark.local.isolation.task_threads import bind_session, unbind_session
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.pyspark_internals import (
    ends_by_itself,
    is_busy,
    last_batch,
    refuse_stop,
    take_off_listener_bus,
)
from airflow_provider.spark.local.shipping import explain_missing
from airflow_provider.spark.local.streaming.awaiting import (
    await_batches,
    await_termination,
    say_left_running,
    summary_of,
)
from airflow_provider.spark.local.streaming.checkpoint_files import read_newest
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.spark.local.streaming.rehearsal import rehearse
from airflow_provider.spark.local.streaming.sinks import warm_sinks
from airflow_provider.spark.runners.query_stops import stop_queries
from airflow_provider.state.records.jobs_topic.session_conf import POOL

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Pools:
    """Hands out the FAIR pools, the first free one first. Any thread may call it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._free = list(range(len(self._names)))
        self._lock = threading.Lock()

    def take(self) -> str | None:
        """A free pool; None if all are taken: the task then shares Spark's default pool."""
        with self._lock:
            return self._names[heapq.heappop(self._free)] if self._free else None

    def give_back(self, name: str | None) -> None:
        if name is not None:
            with self._lock:
                heapq.heappush(self._free, self._names.index(name))


class LocalSession:
    """A session of this process's Spark application (a
    :class:`~airflow_provider.spark.attempts.run_attempt.TaskSession`).

    The tag and the pool are properties of the thread that called :meth:`open`, of the threads that it starts, of
    Spark's threads that work for it, and of the streaming queries that it starts. So cancelling by the tag cancels this
    task and no other.
    """

    def __init__(
        self,
        user: object,
        settings: LocalSparkSettings,
        pools: Pools,
        module: str = "",
        *,
        label: str = "",
        conf: Mapping[str, str] | None = None,
        allowed_conf: AllowedConf = USUAL_CONF,
        tell_every_s: float,
        lease_left_s: LeaseLeft,
    ) -> None:
        """
        :param module: of the job, which the executors have to import
        :param label: the description of the task's Spark jobs, for the Spark UI and for listeners
        :param conf: settings of the session; a pool named there is shared with other tasks that name it
        :param allowed_conf: which settings the worker lets jobs have
        :param tell_every_s: the least time between two progress reports of a query, in seconds
        :param lease_left_s: how much is left of the lease of the user's tasks
        """
        self._user = user
        self._settings = settings
        self._module = module
        self._label = label
        self._conf = {**(conf or {})}
        self._allowed_conf = allowed_conf
        self._named_pool = self._conf.pop(POOL, None)
        self._tell_every_s = tell_every_s
        self._lease_left_s = lease_left_s
        self._counted: CountedJobs | None = None
        self._pools = pools
        self._pool: str | None = None
        self._tag = f"{TASK_TAG_PREFIX}{uuid.uuid4()}"
        self._session: SparkSession | None = None
        self._awaited: StreamingQuery | None = None
        """It may belong to a session that the task has made itself."""
        self.spark: RunningSpark | None = None
        """The application that the session belongs to; None before it has started."""

    def open(self) -> SparkSession:
        """Each time, also after a warm-up in the same session: what is called next may use Spark under its lease."""
        if self._session is None:
            self._session = self._opened()
        if self.spark is not None:
            self.spark.renew_lease()
            self._share_code(self.spark, self._session.sparkContext)
        return self._session

    def _share_code(self, spark: RunningSpark, context: SparkContext) -> None:
        """With whatever runs the job's functions. The import of the job may have added to the path."""
        if is_local(self._settings.master):
            _share_import_path(context)
        elif self._module:
            spark.shipment.ship(context, self._module)

    def _opened(self) -> SparkSession:
        self.spark = APPLICATION.running_for(self._user, self._settings, self._lease_left_s)
        session = self.spark.root.newSession()
        set_conf(session, self._conf, self._allowed_conf)
        context = session.sparkContext
        context.addJobTag(self._tag)
        context.setInterruptOnCancel(True)
        if self._label:
            context.setJobDescription(self._label)
        self._counted = CountedJobs(context, self._tag)
        self._pool = self._pools.take() if self._named_pool is None else None
        pool = self._named_pool or self._pool
        if pool is not None:
            context.setLocalProperty(POOL, pool)
        own_what_is_cached(session, self._tag)
        refuse_stop(session)
        bind_session(session)
        return session

    def query_id(self, value: object) -> str | None:
        if self._session is None:
            return None
        from pyspark.sql.streaming.query import StreamingQuery

        return str(value.id) if isinstance(value, StreamingQuery) else None

    def left_running(self, value: object) -> str | None:
        if self._session is None:
            return None
        from pyspark.sql.streaming.query import StreamingQuery

        mine = self.query_id(value)
        if isinstance(value, StreamingQuery) and value.isActive and not ends_by_itself(value):
            self._awaited = value
            return "run() has returned a streaming query that does not end by itself"
        return say_left_running(self._session.streams.active, mine)

    def await_query(self, query: StreamingQuery, tell: Callable[[QueryProgress | QueryMoves], None]) -> Any:
        self._awaited = query
        await_termination(query, tell, every_s=self._tell_every_s)
        return summary_of(query)

    def count(self) -> JobCounts | None:
        """What its Spark jobs have done; callable from any thread. None: unknown, or reported by its query itself."""
        return None if self._counted is None or not self._says_how_far else self._counted.look()

    def count_at_the_end(self) -> JobCounts | None:
        return None if self._counted is None or not self._says_how_far else self._counted.look_at_the_end()

    @property
    def _says_how_far(self) -> bool:
        return self._awaited is None and self.spark is not None and self.spark.alive

    def share(self, name: str, make: Callable[[], DataFrame], guard: TaskGuard) -> DataFrame:
        def waits() -> None:
            if guard.stopping:
                raise FencedError(f"the task was told to stop while it waited for the table {name!r}")

        spark = self.open()
        assert self.spark is not None
        return self.spark.tables.get(self, spark, name, make, waits)

    def prepare_stream(self, location: str, guard: TaskGuard) -> Iterator[float]:
        for progress in read_newest(self.open(), location):
            yield progress / 2
        for _ in warm_sinks(self.open(), location, guard.wait):
            yield 0.5
        self._refuse_a_dead_spark()

    def rehearse(self, stream: DataStreamWriter, location: str, guard: TaskGuard) -> Iterator[float]:
        yield from rehearse(self.open(), stream, location, guard.wait)
        self._refuse_a_dead_spark()

    def _refuse_a_dead_spark(self) -> None:
        """:raises SparkGoneError: then more has failed than what was tried"""
        if self.spark is not None and not self.spark.alive:
            raise self.spark.gone()

    def explain(self, error: BaseException) -> BaseException:
        if self.spark is None:
            return error
        if self.spark.jvm is not None and _is_lost_connection(error):
            ends_soon(self.spark.jvm)
        if self.spark.alive:
            return error if is_local(self._settings.master) else explain_missing(error, self._settings.master)
        gone = self.spark.gone()
        gone.__cause__ = error
        return gone

    def give_up(self) -> None:
        """Nobody else knows this session."""

    def await_batch(self, limit_s: float, may_go_on: Callable[[], bool]) -> None:
        if self._session is not None and self.spark is not None and self.spark.alive:
            await_batches(self._queries(self._session), last_batch, is_busy, limit_s, may_go_on)

    def cancel(self) -> None:
        session = self._session
        if session is None or self.spark is None:
            return
        if self.spark.alive:
            try:
                stop_queries(self._queries(session), partial(self._cancel_jobs, session))
                self._cancel_jobs(session)
            except Exception:
                if self.spark.alive:
                    raise
                # It has ended just now, and with it all that was to be cancelled.
        elif self.spark.jvm is not None and self.spark.jvm.poll() is None:
            with contextlib.suppress(Exception):  # the context is gone, but a query that waits for data may not notice
                for query in self._queries(session):
                    query.stop()

    def _queries(self, session: SparkSession) -> list[StreamingQuery]:
        active = session.streams.active
        if self._awaited is None or self._awaited.id in [query.id for query in active]:
            return active
        return [*active, self._awaited]

    def _cancel_jobs(self, session: SparkSession) -> None:
        """The tag does not cover threads that the task has made itself; for these, interrupt the whole session."""
        session.sparkContext.cancelJobsWithTag(self._tag)
        session.interruptAll()

    def _leave_nothing_in_spark(self) -> None:
        session = self._session
        if session is not None and self.spark is not None and self.spark.alive:
            drop_what_was_cached(session, self._tag)
            take_off_listener_bus(session, self._awaited)

    handle: Any = None
    left_open = False
    """What it has started ends with this process."""

    def let_go_on(self, query: Any) -> bool:  # noqa: ARG002 - a query of this process can't be detached
        return False

    def close(self) -> None:
        try:
            self.cancel()
            self._leave_nothing_in_spark()
        finally:
            if self.spark is not None:
                self.spark.tables.release(self)
            unbind_session()
            self._pools.give_back(self._pool)
            self._pool = None


def _is_lost_connection(error: BaseException) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, (Py4JError, OSError)) and not isinstance(error, Py4JJavaError)


def _share_import_path(context: SparkContext) -> None:
    """Let Python workers on this machine import what this process can now: the folder of the DAGs, for example."""
    if not context.getConf().contains("spark.executorEnv.PYTHONPATH"):
        context.environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
