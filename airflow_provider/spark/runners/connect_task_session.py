"""The session of one task on a Spark Connect server."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.attempts.failures import ForeignQueryError, chain_of
from airflow_provider.spark.connect.client import forget_starts, hang_up, is_of, open_session, settle
from airflow_provider.spark.connect.connection import RELEASE_S, ConnectedServer, ServerConnection
from airflow_provider.spark.connect.ending import QueryNotStoppedError
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.reported_counts import ReportedCounts
from airflow_provider.spark.connect.server import ConnectSettings, following
from airflow_provider.spark.connect.session_end import end_for_good
from airflow_provider.spark.connect.shipping import Parcels
from airflow_provider.spark.connect.task_threads import bind_session, unbind_session
from airflow_provider.spark.connect.trouble import (
    SessionRefusedError,
    Trouble,
    UnsupportedOnConnectError,
    is_unsupported,
    text_of,
    trouble_in,
    trouble_of,
)
from airflow_provider.spark.job import FencedError, TaskGuard
from airflow_provider.spark.job.session_conf import USUAL_CONF, AllowedConf, set_conf
from airflow_provider.spark.local.errors import SparkFullError
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.shipping import explain_missing
from airflow_provider.spark.local.streaming.awaiting import (
    await_batches,
    await_termination,
    say_left_running,
    summary_of,
)
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.values.deadlines import Deadline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

_OWNER: Final = "cospark.attempt"
"""A setting of each session: the attempt that uses it."""
_TAKES_OVER_CHECKPOINT: Final = "spark.sql.streaming.stopActiveRunOnRestart"
"""Whether the start of a query stops another query on the server that uses the same checkpoint."""
_SETTLE_S: Final = 2.0
_CANCEL_S: Final = 10.0
_LEAST_S: Final = 1.0
_CANCELED: Final = "[OPERATION_CANCELED]"
"""What a client hears first of a session that is being ended."""


class ConnectSession:
    """A session of a Spark Connect server (an
    :class:`~airflow_provider.spark.runners.attached_tasks.sessions.AttachedSession`).

    The server ends it for good, with everything that the task has started in it. If the worker was lost, the task's
    next attempt, which knows the session's id, has it ended first. After that the lost worker can do nothing in it.

    :param name: the user agent, which the server shows
    :param session_id: the session of this attempt; if it was already used, the next free one is taken (``following``)
    :param former: the session id of the previous attempt, if there was one
    :param check_owner: raises :class:`FencedError` if the task no longer belongs to this worker
    :param conf: settings of the session, besides those of the worker
    :param allowed_conf: which of these the worker lets jobs have
    :param module: the job's module, which the server's Python has to import; empty: none
    :param tell_every_s: report a query's progress at most this often, in seconds
    :param detaches: the handle of the query that the task returns, which is to be detached; None: it is not
    """

    def __init__(
        self,
        connection: ServerConnection,
        settings: ConnectSettings,
        parcels: Parcels,
        *,
        name: str,
        session_id: str,
        former: str | None = None,
        check_owner: Callable[[], None],
        module: str = "",
        conf: Mapping[str, str] | None = None,
        allowed_conf: AllowedConf = USUAL_CONF,
        tell_every_s: float,
        detaches: QueryHandle | None = None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._parcels = parcels
        self._name = name
        self._id = session_id
        self._former = former
        self._check_owner = check_owner
        self._module = module
        self._conf = conf or {}
        self._allowed_conf = allowed_conf
        self._tell_every_s = tell_every_s
        self._session: SparkSession | None = None
        self._has_opened = False
        self._released = False
        self._given_up = False
        self._ends = threading.Lock()
        self._release_by: Deadline | None = None
        self._shared: list[DataFrame] = []
        self._counts = ReportedCounts()
        self._awaits_query = False
        self._handle = detaches
        self._goes_on = False
        self.left_open = False
        self.spark: ConnectedServer | None = None

    def open(self) -> Any:
        if self._session is None:
            self.spark = self._connection.server()
            self._require_mine()
            if self._former is not None:
                self._end_former(self._former)
            self._session = session = self._begin()
            for name, value in self._settings.conf.items():
                session.conf.set(name, value)
            set_conf(session, self._conf, self._allowed_conf)
            if self._handle is not None:
                session.conf.set(_TAKES_OVER_CHECKPOINT, "false")
            session.registerProgressHandler(self._counts)  # type: ignore[arg-type]  # a call is all that it takes
            bind_session(session)
            self._has_opened = True
        return self._session

    def _send_modules(self) -> None:
        """Not sooner than they are needed: the import of the job may have added to the path."""
        if self._module and self._session is not None:
            self._parcels.send(self._session, self._module)

    def _begin(self) -> SparkSession:
        """Open a session that nobody has used: an attempt may have been lost before it was recorded."""
        self._id, session = self._first_free(self._id)
        if self._handle is not None:
            self._handle = replace(self._handle, session_id=self._id)
        session.conf.set(_OWNER, self._name)
        try:
            # A server can't set this only if it is unset. A process that was frozen before it has set it may have taken
            # the session of its successor, which began when the lease was over: it leaves it alone.
            self._require_mine()
        except FencedError:
            hang_up(session)
            raise
        return session

    def _end_former(self, session_id: str) -> None:
        """End all sessions that the previous attempt may have used."""
        _, session = self._first_free(session_id)
        try:
            self._end_as_long_as_it_takes(session)
        finally:
            hang_up(session)

    def _first_free(self, session_id: str) -> tuple[str, SparkSession]:
        """The first session that nobody has used, from this id on; the used ones are ended."""
        while (session := self._free(session_id)) is None:
            session_id = following(session_id)
        return session_id, session

    def _free(self, session_id: str) -> SparkSession | None:
        """None: the session was already used. It has been ended."""
        session = open_session(self._settings, self._name, session_id, self._send_modules)
        try:
            if session.conf.get(_OWNER, None) is None:
                return session
            self._end_as_long_as_it_takes(session)
        except Exception as error:
            hang_up(session)
            if trouble_of(error) is not Trouble.CLOSED:
                raise
        else:
            hang_up(session)
        return None

    def _end_as_long_as_it_takes(self, session: SparkSession) -> None:
        """What a lost worker has begun there may take long to end. That this has to wait is no fault of the task."""
        while True:
            self._require_mine()
            try:
                return end_for_good(session, self._settings.server, timeout_s=RELEASE_S)
            except QueryNotStoppedError as slow:
                if self.spark is not None:
                    self.spark.look()
                    if not self.spark.alive:
                        raise self.spark.gone() from slow
                log.warning("%s waits for what was begun for it before: %s", self._name, slow)

    def _require_mine(self) -> None:
        """The task's next worker may start the same attempt in a session with the same id: never end that session."""
        if self._given_up:
            raise FencedError("the task was told to stop before it had started")
        self._check_owner()

    # ---- streaming queries

    def query_id(self, value: object) -> str | None:
        if self._session is None:
            return None
        from pyspark.sql.connect.streaming.query import StreamingQuery

        if not isinstance(value, StreamingQuery):
            return None
        if not is_of(value, self._session):
            with contextlib.suppress(Exception):  # its session may be on any server
                value.stop()
            raise ForeignQueryError
        return str(value.id)

    def left_running(self, value: object) -> str | None:
        """A client does not know whether the query that ``run`` has returned ends by itself."""
        if self._session is None:
            return None
        mine = self.query_id(value)
        return say_left_running(self._session.streams.active, mine)

    def await_query(self, query: Any, tell: Callable[[QueryProgress | QueryMoves], None]) -> Any:
        self._awaits_query = True
        await_termination(query, tell, every_s=self._tell_every_s)
        return summary_of(query)

    def await_batch(self, limit_s: float, may_go_on: Callable[[], bool]) -> None:
        if self._session is not None and self.spark is not None and self.spark.alive:
            await_batches(self._session.streams.active, _last_batch, _is_busy, limit_s, may_go_on)

    def count(self) -> JobCounts | None:
        return None if self._session is None or self._awaits_query else self._counts.look()

    def count_at_the_end(self) -> JobCounts | None:
        return None if self._awaits_query else self._counts.look_at_the_end()

    # ---- what there is for the job's code

    def share(self, name: str, make: Callable[[], DataFrame], guard: TaskGuard) -> DataFrame:  # noqa: ARG002
        """Each task reads the data itself; the server caches equal plans once."""
        if guard.stopping:
            raise FencedError("the task was told to stop before it had read its shared data")
        data = make().persist()
        self._shared.append(data)
        return data

    def prepare_stream(self, location: str, guard: TaskGuard) -> Iterator[float]:  # noqa: ARG002
        """There is nothing to prepare: the server is equally warm for all its workers."""
        return iter(())

    def rehearse(self, stream: DataStreamWriter, location: str, guard: TaskGuard) -> Iterator[float]:  # noqa: ARG002
        """There is nothing to rehearse: the server is equally warm for all its workers."""
        return iter(())

    # ---- detached queries

    @property
    def handle(self) -> Any:
        return None if self._handle is None else self._handle.to_json()

    def let_go_on(self, query: Any) -> bool:
        if self._handle is None:
            return False
        self._handle = replace(self._handle, query_id=str(query.id), run_id=str(query.runId))
        self._goes_on = True
        return True

    # ---- its end

    def give_up(self) -> None:
        self._given_up = True

    def explain(self, error: BaseException) -> BaseException:
        if self.spark is None:
            return error
        said, trouble = trouble_in(chain_of(error))
        if said is not None and trouble is Trouble.AWAY:
            self.spark.has_ended(f"it does not answer ({text_of(said)})")
        elif trouble is Trouble.ENDED:
            self.spark.has_ended("it was restarted, or its Spark has ended")
        elif trouble in (Trouble.CLOSED, Trouble.SLOW):
            self.spark.look()
        if not self.spark.alive:
            gone = self.spark.gone()
            gone.__cause__ = error
            return gone
        return self._explain_of_server_that_is_there(error, trouble)

    def _explain_of_server_that_is_there(self, error: BaseException, trouble: Trouble) -> BaseException:
        server = self._settings.server
        plain: Exception
        if trouble is Trouble.CLOSED or _CANCELED in text_of(error):
            plain = SessionRefusedError(
                f"the Spark Connect server {server} has closed this task's session: somebody has ended it, or it was"
                " idle for longer than the server's spark.connect.session.manager.defaultSessionTimeout"
            )
        elif trouble is Trouble.FULL:
            plain = SparkFullError(
                f"the Spark Connect server {server} has no capacity left for this task: {text_of(error)}",
                began=self._has_opened,
            )
        elif trouble is Trouble.REFUSES:
            plain = SessionRefusedError(f"the Spark Connect server {server} refuses this task: {text_of(error)}")
        elif is_unsupported(error):
            plain = UnsupportedOnConnectError(
                f"{error} This worker uses {server}. Spark Connect has no SparkContext, no RDDs and no py4j: use"
                " DataFrames, or run the job on workers with a Spark of their own (spark_master)"
            )
        else:
            return explain_missing(error, str(server))
        plain.__cause__ = error
        return plain

    def cancel(self) -> None:
        if self._session is None or self.spark is None:
            return
        self._has_to_end()
        if not self.spark.alive:
            hang_up(self._session)
            return
        try:
            self._end(self._session, _CANCEL_S)
        except QueryNotStoppedError as slow:
            log.info("%s is not cancelled yet: %s", self._name, slow)

    def _has_to_end(self) -> Deadline:
        """Until when the server has to end the session: however often it is asked, the time counts from the first."""
        if self._release_by is None:
            self._release_by = Deadline(RELEASE_S)
        return self._release_by

    def _end(self, session: SparkSession, timeout_s: float) -> None:
        with self._ends:
            if not self._released:
                end_for_good(session, self._settings.server, timeout_s=timeout_s)
                self._released = True

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None or self.spark is None:
            return
        unbind_session(session)
        if self._goes_on or self._given_up:
            self.left_open = self._goes_on
            if self._goes_on:
                with contextlib.suppress(Exception):  # the server forgets them by itself, but late
                    forget_starts(session, _SETTLE_S)
            hang_up(session)
            return
        try:
            if self._handle is not None and not self.spark.alive:
                self.left_open = True  # the server does not answer, but may still be running
            elif self.spark.alive and not self._released:
                with contextlib.suppress(Exception):  # otherwise the server's cache keeps it until it restarts
                    for data in self._shared:
                        data.unpersist()
                settle(session, _SETTLE_S)
                self._end(session, self._has_to_end().left_s(least_s=_LEAST_S))
        except Exception as error:  # noqa: BLE001 - the server ends the session itself when it was idle for long
            self.left_open = self._handle is not None
            log.warning("Could not release the session of %s: %s", self._name, text_of(error))
        finally:
            hang_up(session)


def _last_batch(query: Any) -> tuple[int, float] | None:
    """The number of the last completed batch, and how many seconds it took."""
    progress = query.lastProgress
    if progress is None:
        return None
    return int(progress["batchId"]), float(progress["durationMs"].get("triggerExecution") or 0) / 1000


def _is_busy(query: Any) -> bool:
    return bool(query.isActive) and bool(query.status["isTriggerActive"])
