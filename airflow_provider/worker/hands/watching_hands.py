"""Hands for a worker with detached tasks, while it is held in a triggerer. If this does not know a cluster on which one
of them runs, the worker goes back to a process, which may. So does one without a server that is to learn a task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.connect.server import NO_OTHERS, AllowedServers, ConnectServer
from airflow_provider.spark.job.checkpoint_folder import TEMPORARY
from airflow_provider.spark.runner import OnEvent, RunnerClosedError, TaskOrder
from airflow_provider.spark.runners.driver_watch import ask_in_thread
from airflow_provider.spark.runners.ready_at_once import ReadyAtOnce
from airflow_provider.spark.submit.clusters import cluster_here
from airflow_provider.spark.submit.detached import ClusterSilentError, Driver
from airflow_provider.state.records import is_driver
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.hands.servers import Servers, TokenOf
from airflow_provider.worker.hands.standby import NoSparkNeeded
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.tasks.state import ExecutionSettings
from airflow_provider.worker.worker import MakeHands


class NothingRuns:
    """A :class:`~airflow_provider.spark.runner.Runner` that starts nothing."""

    running: Tasks = NO_TASKS
    condition = spark_ui = ""
    opening = False

    def __init__(self, on_event: OnEvent) -> None:
        self._ready = ReadyAtOnce(on_event)

    def warm(self, order: TaskOrder) -> None:
        self._ready.warm(order)

    def stop_warming(self, task: TaskId) -> None:
        self._ready.stop(task)

    async def start(self, order: TaskOrder) -> None:
        raise RunnerClosedError(f"task {order.task} can't be started in a triggerer")

    def proceed(self, task: TaskId) -> None: ...

    async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:  # noqa: ARG002
        return NO_TASKS

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:  # noqa: ARG002
        self._ready.stop_all()
        return NO_TASKS


async def what_it_lacks(status: StatusSnapshot, worker: WorkerId, masters: Collection[str] = ()) -> str:
    """Why this process can't watch a driver that a worker has; empty: it can, at least when the cluster answers.

    :param masters: the masters of Kubernetes that may be asked because a handle names them
    """
    drivers = (last.handle for last in status.living() if last.worker == worker and is_driver(last.handle))
    for cluster, tag in {each.get("cluster"): each["tag"] for each in drivers}.items():
        try:
            await ask_in_thread(partial(_find, cluster, tag, masters))
        except ClusterSilentError:
            continue
        except Exception as unknown:  # noqa: BLE001 - of whatever kind the cluster is
            return str(unknown)
    return ""


def _find(cluster: object, tag: str, masters: Collection[str]) -> list[Driver]:
    return cluster_here(str(cluster), masters).find(tag)


class WatchesInTriggerer:
    """A triggerer that starts nothing, and watches detached queries (:class:`~airflow_provider.worker.holding.Place`).

    :param pause_s: gives the time, from now, before which no process that runs tasks is to be started
    :param server: the URL of the worker's Spark Connect server; empty: it has none
    :param token_of: gives the tokens for this server, and for allowed others on which its tasks may have run before
    :param allowed: these others
    :param masters: the masters of Kubernetes that may be asked because a handle names them
    :param tell_every_s: report a task's progress at most this often, in seconds
    :param max_spark_deaths: a task may fail when Spark or its process has ended this often while it ran
    """

    is_gone = None

    def __init__(
        self,
        pause_s: Callable[[], float],
        *,
        server: str,
        token_of: TokenOf,
        tell_every_s: float,
        max_spark_deaths: int,
        allowed: AllowedServers = NO_OTHERS,
        masters: tuple[str, ...] = (),
        mask: Mask = nothing_secret,
    ) -> None:
        self._pause_s = pause_s
        self._own = ConnectServer.parse(server) if server else None
        self._servers = Servers(own=self._own, token_of=token_of, allowed=allowed, masters=masters)
        self._tell_every_s = tell_every_s
        self._max_spark_deaths = max_spark_deaths
        self._mask = mask

    def make_hands(self, settings: WorkerSettings, topics: GroupTopics) -> MakeHands:
        member = settings.member
        last = topics.status.workers.get(member.worker)

        def make(
            stopped: Released, finished: Released, changed: Callable[[], None], _lease: WorkerLease
        ) -> TaskExecutor:
            return TaskExecutor(
                ExecutionSettings(
                    worker=member.worker,
                    slots=settings.slots,
                    process=this_process(),
                    lease_ms=member.session_timeout_ms,
                    linger_ms=round(self._pause_s() * 1000),
                    max_spark_deaths=self._max_spark_deaths,
                    mask=self._mask,
                    in_triggerer=True,
                    warms_up=self._own is not None,
                    server=self._own.url if self._own else "",
                ),
                group_id=member.group_id,
                topics=topics,
                make_runner=NothingRuns,
                checkpoint_root=TEMPORARY,
                stopped=stopped,
                finished=finished,
                changed=changed,
                make_queries=self._servers.queries(
                    member.worker,
                    group_id=member.group_id,
                    tell_every_s=self._tell_every_s,
                    mask=self._mask,
                    on_condition=changed,
                ),
                time_zone="" if last is None else last.time_zone,
                python_time_zone="" if last is None else last.python_time_zone,
            )

        return make

    def spark_starter(self, settings: WorkerSettings) -> NoSparkNeeded:  # noqa: ARG002
        return NoSparkNeeded()
