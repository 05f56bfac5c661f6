"""Hands for a worker in a process that runs its tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Final

from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.attempts.failures import Mask, nothing_secret, why_no_spark
from airflow_provider.spark.connect.connection import ServerConnection
from airflow_provider.spark.connect.handle import QueryHandle
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings, is_connect
from airflow_provider.spark.job.checkpoint_folder import TEMPORARY
from airflow_provider.spark.local.application.spark_application import APPLICATION, LocalSparkSettings
from airflow_provider.spark.local.application.time_zone import TIME_ZONE, UTC, time_zone_here, time_zone_of_python
from airflow_provider.spark.local.errors import SparkAwayError, SparkStartError
from airflow_provider.spark.runner import OnEvent, Runner, RunnerEvent
from airflow_provider.spark.runners.connect import ConnectRunner, close_connection
from airflow_provider.spark.runners.local import LocalRunner, release_spark
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.spark.runners.threads import in_thread
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.end_orphan_queries import end_detached_queries
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.log_levels import LogLevels
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.hands.servers import Servers, TokenOf, no_token
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import is_gone, this_process
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.standing_back import NoSpark, SparkStarter
from airflow_provider.worker.tasks.state import ExecutionSettings
from airflow_provider.worker.worker import MakeHands

_CLOSE_WAIT_S: Final = 10.0


def _nobody(_event: RunnerEvent) -> None: ...


class InThisProcess:
    """A process that runs tasks (:class:`~airflow_provider.worker.holding.Place`).

    :param mask: removes secrets from error messages
    :param hear: also called with each event of a task, after the worker
    :param token_of: gives the tokens for other servers than the worker's own, on which its tasks may have run before
    """

    is_gone = staticmethod(is_gone)

    def __init__(
        self,
        equipment: Equipment,
        mask: Mask = nothing_secret,
        hear: OnEvent = _nobody,
        token_of: TokenOf = no_token,
    ) -> None:
        self._token_of = token_of
        self._equipment = equipment
        self._mask = mask
        self._hear = hear

    def make_hands(self, settings: WorkerSettings, topics: GroupTopics) -> MakeHands:
        equipment, member = self._equipment, settings.member
        servers = servers_of(equipment, self._token_of)

        def make(
            stopped: Released, finished: Released, changed: Callable[[], None], lease: WorkerLease
        ) -> TaskExecutor:
            return TaskExecutor(
                ExecutionSettings(
                    worker=member.worker,
                    slots=settings.slots,
                    process=this_process(),
                    lease_ms=member.session_timeout_ms,
                    linger_ms=round(equipment.linger_s * 1000),
                    max_spark_deaths=equipment.max_spark_deaths,
                    mask=self._mask,
                    server=servers.own.url if servers.own else "",
                ),
                group_id=member.group_id,
                topics=topics,
                make_runner=lambda on_event: self._runner(on_event, settings, topics, lease, changed),
                checkpoint_root=TEMPORARY if equipment.runner == "noop" else equipment.checkpoint_root,
                stopped=stopped,
                finished=finished,
                changed=changed,
                log_levels=LogLevels(equipment.allowed),
                time_zone=_time_zone(equipment),
                python_time_zone="" if equipment.runner == "noop" else time_zone_of_python(),
                make_queries=servers.queries(
                    member.worker,
                    group_id=member.group_id,
                    tell_every_s=equipment.progress_s,
                    mask=self._mask,
                    on_condition=changed,
                ),
            )

        return make

    def _runner(
        self,
        on_event: OnEvent,
        settings: WorkerSettings,
        topics: GroupTopics,
        lease: WorkerLease,
        on_condition: Callable[[], None],
    ) -> Runner:
        def tell(event: RunnerEvent) -> None:
            on_event(event)
            self._hear(event)

        equipment, member = self._equipment, settings.member
        if equipment.runner == "noop":
            return NoopRunner(tell)
        applications = replace(equipment.applications, time_zone=_time_zone(equipment), detach=equipment.detach)
        if is_connect(equipment.spark_master):
            return ConnectRunner(
                tell,
                allowed=equipment.allowed,
                allowed_conf=equipment.allowed_conf,
                applications=applications,
                settings=_connect_settings(equipment),
                worker=member.worker,
                scope=f"{topics.cluster}/{member.group_id}" if topics.cluster else "",
                lease=lease,
                mask=self._mask,
                on_condition=on_condition,
                tell_every_s=equipment.progress_s,
                detach_by=equipment.spark_conn_id if equipment.detach else None,
            )
        return LocalRunner(
            tell,
            allowed=equipment.allowed,
            allowed_conf=equipment.allowed_conf,
            applications=applications,
            lease=lease,
            settings=_spark_settings(equipment, settings),
            mask=self._mask,
            on_condition=on_condition,
            tell_every_s=equipment.progress_s,
        )

    def spark_starter(self, settings: WorkerSettings) -> SparkStarter:
        if is_connect(self._equipment.spark_master):
            return SparkOfServer(self._equipment, settings, self._mask, self._token_of)
        return SparkOfProcess(self._equipment, settings, self._mask, self._token_of)


class _Starter(ABC):
    """Starts what a worker needs that stands back until it can run tasks (a
    :class:`~airflow_provider.worker.standing_back.SparkStarter`).

    :param mask: removes secrets from error messages
    :param token_of: see :class:`InThisProcess`
    """

    def __init__(
        self,
        equipment: Equipment,
        settings: WorkerSettings,
        mask: Mask = nothing_secret,
        token_of: TokenOf = no_token,
    ) -> None:
        self._equipment = equipment
        self._settings = settings
        self._mask = mask
        self._servers = servers_of(equipment, token_of)

    async def start(self) -> NoSpark | None:
        try:
            await self._start()
        except SparkStartError as wrong:
            return NoSpark(why_no_spark(wrong, self._mask), away=isinstance(wrong, SparkAwayError))
        return None

    async def end_detached_queries(self, topics: GroupTopics) -> None:
        await end_detached_queries(topics, self._servers.settings_of, self._mask)

    @abstractmethod
    async def _start(self) -> None:
        """:raises SparkStartError: if it does not start"""

    @abstractmethod
    async def release(self) -> None: ...


class SparkOfProcess(_Starter):
    """Starts this process's Spark."""

    _started = False

    async def _start(self) -> None:
        settings = _spark_settings(self._equipment, self._settings)
        await in_thread(lambda: APPLICATION.running_for(self, settings), "spark-start")
        self._started = True

    async def release(self) -> None:
        if self._started:  # otherwise it may be starting, and a worker that leaves does not wait for that
            await release_spark(self, timeout_s=_CLOSE_WAIT_S)


class SparkOfServer(_Starter):
    """Reaches its Spark Connect server."""

    @cached_property
    def _connection(self) -> ServerConnection:
        return ServerConnection(_connect_settings(self._equipment), f"cospark/{self._settings.member.worker}")

    async def _start(self) -> None:
        await in_thread(self._connection.server, "connect-start")

    async def release(self) -> None:
        await close_connection(self._connection, timeout_s=_CLOSE_WAIT_S)


def servers_of(equipment: Equipment, token_of: TokenOf = no_token) -> Servers:
    """The servers that a worker with this equipment can use.

    :param token_of: gives the tokens for other servers than its own
    """
    masters = equipment.applications.kubernetes_masters
    if equipment.runner == "noop" or not is_connect(equipment.spark_master):
        return Servers(own=None, token_of=token_of, allowed=equipment.allowed_servers, masters=masters)
    own = ConnectServer.parse(equipment.spark_master)

    async def token(handle: QueryHandle) -> str:
        return equipment.spark_token if handle.server == own else await token_of(handle)

    return Servers(own=own, token_of=token, allowed=equipment.allowed_servers, masters=masters)


def _connect_settings(equipment: Equipment) -> ConnectSettings:
    return ConnectSettings(
        server=ConnectServer.parse(equipment.spark_master),
        token=equipment.spark_token,
        conn_id=equipment.spark_conn_id,
        conf={**UTC, **equipment.spark_conf},
    )


def _time_zone(equipment: Equipment) -> str:
    """The time zone of tasks' sessions; empty: there are none."""
    if equipment.runner == "noop":
        return ""
    if is_connect(equipment.spark_master):
        return _connect_settings(equipment).conf[TIME_ZONE]
    return time_zone_here(equipment.spark_conf)


def _spark_settings(equipment: Equipment, settings: WorkerSettings) -> LocalSparkSettings:
    return LocalSparkSettings(
        master=equipment.spark_master, app_name=settings.member.worker, conf=dict(equipment.spark_conf)
    )
