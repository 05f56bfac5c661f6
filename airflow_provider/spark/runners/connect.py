"""A runner whose tasks use a Spark Connect server. It needs no Java, and no Spark of its own."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Iterable
from urllib.parse import quote

from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.connect.connection import ConnectedServer, ServerConnection
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectSettings, session_id
from airflow_provider.spark.connect.shipping import Parcels
from airflow_provider.spark.job.allowed_applications import NO_APPLICATIONS, AllowedApplications
from airflow_provider.spark.job.fencing import EndlessLease, Lease
from airflow_provider.spark.job.session_conf import USUAL_CONF, AllowedConf
from airflow_provider.spark.limits import UsedUpError
from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.spark.runner import OnEvent, RunnerClosedError, TaskOrder
from airflow_provider.spark.runners.attached_tasks.attached import AttachedRunner
from airflow_provider.spark.runners.connect_task_session import ConnectSession
from airflow_provider.spark.runners.ready_at_once import ReadyAtOnce
from airflow_provider.spark.runners.threads import in_thread
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.model import TaskId

log = logging.getLogger(__name__)


class ConnectSparks:
    """Gives tasks sessions on a server (:class:`~airflow_provider.spark.runners.attached_tasks.sessions.Sparks`).

    :param worker: part of the user agent, which the server shows
    :param scope: identifies the group among all users of the server, as part of session ids; empty: session ids are
        random, so nobody else can find a session
    :param lease: the worker's lease: without it, no session is ended
    :param tell_every_s: report a query's progress at most this often, in seconds
    :param detach_by: detach streams; their handles name this connection, by which others reach the server (empty: none
        is needed). None: streams end with this process
    :param allowed_conf: which settings jobs may have
    """

    opening = Sight.SILENT

    def __init__(
        self,
        settings: ConnectSettings,
        worker: str,
        scope: str,
        lease: Lease,
        tell_every_s: float,
        detach_by: str | None,
        allowed_conf: AllowedConf = USUAL_CONF,
    ) -> None:
        self._settings = settings
        self._allowed_conf = allowed_conf
        self._detach_by = detach_by
        self._tell_every_s = tell_every_s
        self._worker = worker
        self._scope = scope
        self._lease = lease
        self._connection = ServerConnection(settings, f"cospark/{quote(worker)}")
        self._parcels = Parcels()

    def session(self, order: TaskOrder) -> ConnectSession:
        mine = self._session_id(order, order.attempt) or str(uuid.uuid4())
        detaches = None
        if self._detach_by is not None and not order.bounded:
            detaches = QueryHandle(server=self._settings.server, session_id=mine, conn_id=self._detach_by)
        return ConnectSession(
            self._connection,
            self._settings,
            self._parcels,
            name=f"cospark/{quote(self._worker)} {quote(str(order.task))}",
            session_id=mine,
            former=self._session_id(order, order.attempt - 1) if order.attempt > 1 else None,
            check_owner=functools.partial(self._lease.check, self._lease.grant),
            module=order.entry_point.partition(":")[0],
            conf=order.session_conf,
            allowed_conf=self._allowed_conf,
            tell_every_s=self._tell_every_s,
            detaches=detaches,
        )

    def _session_id(self, order: TaskOrder, attempt: int) -> str | None:
        if not self._scope:
            return None
        return session_id(self._scope, order.task.job, str(order.task.index), order.run_key or "", str(attempt))

    def look_at(self, spark: ConnectedServer) -> Sight:
        return spark.look()

    async def release(self, *, timeout_s: float) -> None:
        self._parcels.close()
        await close_connection(self._connection, timeout_s=timeout_s)


class ConnectRunner(AttachedRunner):
    """Runs tasks in threads of this process, and their Spark work on a server.

    There is no warm-up: the server is equally warm for all its workers.

    :param settings: how to use the server
    :param worker: the name of the worker
    :param scope: see :class:`ConnectSparks`
    :param detach_by: see :class:`ConnectSparks`
    :param allowed_conf: see :class:`ConnectSparks`

    For the other parameters see :class:`~airflow_provider.spark.runners.attached_tasks.attached.AttachedRunner`.
    """

    def __init__(
        self,
        on_event: OnEvent,
        *,
        allowed: Iterable[str],
        settings: ConnectSettings,
        worker: str,
        scope: str = "",
        lease: Lease | None = None,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
        tell_every_s: float = 30.0,
        detach_by: str | None = None,
        allowed_conf: AllowedConf = USUAL_CONF,
        applications: AllowedApplications = NO_APPLICATIONS,
    ) -> None:
        lease = lease or EndlessLease()
        super().__init__(
            on_event,
            allowed=allowed,
            sparks=ConnectSparks(settings, worker, scope, lease, tell_every_s, detach_by, allowed_conf),
            lease=lease,
            mask=mask,
            on_condition=on_condition,
            tell_every_s=tell_every_s,
            applications=applications,
        )
        self._ready = ReadyAtOnce(on_event)

    def warm(self, order: TaskOrder) -> None:
        if self._closed:
            raise RunnerClosedError(f"task {order.task} can't be warmed up: the runner is closed")
        self._ready.warm(order)

    def stop_warming(self, task: TaskId) -> None:
        self._ready.stop(task)

    async def start(self, order: TaskOrder) -> None:
        self.stop_warming(order.task)
        await super().start(order)


async def close_connection(connection: ServerConnection, *, timeout_s: float) -> None:
    """Close the connection, or give up after ``timeout_s`` if the server does not answer."""
    try:
        await wait_at_most(timeout_s, in_thread(connection.close, "connect-close"))
    except DeadlineError:
        log.warning(
            "The Spark Connect server has not answered within %.3g s; its sessions end by themselves", timeout_s
        )
    except UsedUpError as error:
        log.warning("The sessions of the Spark Connect server end by themselves: %s", error)
