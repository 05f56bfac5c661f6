"""A runner whose tasks share the Spark application of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.job.allowed_applications import NO_APPLICATIONS, AllowedApplications
from airflow_provider.spark.job.fencing import Lease
from airflow_provider.spark.job.session_conf import USUAL_CONF, AllowedConf
from airflow_provider.spark.limits import UsedUpError
from airflow_provider.spark.local.application.spark_application import (
    APPLICATION,
    POOLS,
    LocalSparkSettings,
    RunningSpark,
)
from airflow_provider.spark.local.application.watch import look_at
from airflow_provider.spark.local.driver_jvm.jvm_lease import LeaseLeft
from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.spark.runner import OnEvent, TaskOrder
from airflow_provider.spark.runners.attached_tasks.attached import AttachedRunner
from airflow_provider.spark.runners.local_task_session import LocalSession, Pools
from airflow_provider.spark.runners.threads import in_thread
from airflow_provider.values.deadlines import DeadlineError, wait_at_most

log = logging.getLogger(__name__)


class LocalSparks:
    """Gives tasks sessions of this process's Spark (see
    :class:`~airflow_provider.spark.runners.attached_tasks.sessions.Sparks`). It starts when the first session is
    opened.

    :param settings: how to start it
    :param tell_every_s: report a query's progress at most this often, in seconds
    :param lease_left_s: how much is left of the lease of what runs in the sessions
    :param allowed_conf: which settings jobs may have
    """

    opening = Sight.STARTING

    def __init__(
        self,
        settings: LocalSparkSettings,
        tell_every_s: float,
        lease_left_s: LeaseLeft,
        allowed_conf: AllowedConf = USUAL_CONF,
    ) -> None:
        self._settings = settings
        self._allowed_conf = allowed_conf
        self._tell_every_s = tell_every_s
        self._lease_left_s = lease_left_s
        self._pools = Pools(POOLS)

    def session(self, order: TaskOrder) -> LocalSession:
        return LocalSession(
            self,
            self._settings,
            self._pools,
            order.entry_point.partition(":")[0],
            label=order.label,
            conf=order.session_conf,
            allowed_conf=self._allowed_conf,
            tell_every_s=self._tell_every_s,
            lease_left_s=self._lease_left_s,
        )

    def look_at(self, spark: RunningSpark) -> Sight:
        return look_at(spark)

    async def release(self, *, timeout_s: float) -> None:
        await release_spark(self, timeout_s=timeout_s)


class LocalRunner(AttachedRunner):
    """Runs tasks with a Spark of this process.

    :param settings: how to start Spark
    :param allowed_conf: which settings jobs may have for the sessions of their tasks

    For the other parameters see :class:`~airflow_provider.spark.runners.attached_tasks.attached.AttachedRunner`.
    """

    def __init__(
        self,
        on_event: OnEvent,
        *,
        allowed: Iterable[str],
        lease: Lease | None = None,
        settings: LocalSparkSettings | None = None,
        mask: Mask = nothing_secret,
        on_condition: Callable[[], None] = lambda: None,
        tell_every_s: float = 30.0,
        allowed_conf: AllowedConf = USUAL_CONF,
        applications: AllowedApplications = NO_APPLICATIONS,
    ) -> None:
        super().__init__(
            on_event,
            allowed=allowed,
            sparks=LocalSparks(settings or LocalSparkSettings(), tell_every_s, self.lease_left_s, allowed_conf),
            lease=lease,
            mask=mask,
            on_condition=on_condition,
            tell_every_s=tell_every_s,
            applications=applications,
        )


async def release_spark(user: object, *, timeout_s: float = 30.0) -> None:
    """Release the process's Spark for ``user``, or give up after ``timeout_s`` if it does not stop."""
    try:
        await wait_at_most(timeout_s, in_thread(lambda: APPLICATION.release(user), "spark-stop"))
    except DeadlineError:
        log.warning("Spark has not stopped within %.3g s; it ends with this process", timeout_s)
    except UsedUpError as error:
        log.warning("Spark can't be stopped, and ends with this process: %s", error)
