"""Hands for a worker whose tasks run in its own process, and end with it."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.spark.application import LocalSparkSettings
from airflow_provider.spark.checkpoints import TEMPORARY
from airflow_provider.spark.failures import Mask, nothing_secret
from airflow_provider.spark.local import LocalRunner
from airflow_provider.spark.noop import NoopRunner
from airflow_provider.spark.runner import OnEvent, Runner
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.executor import TaskExecutor
from airflow_provider.worker.hands import Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.settings import WorkerSettings
from airflow_provider.worker.worker import MakeHands


def attached_hands(
    equipment: Equipment, settings: WorkerSettings, logs: GroupLogs, mask: Mask = nothing_secret
) -> MakeHands:
    """What :class:`~airflow_provider.worker.worker.Worker` takes as ``make_hands``.

    :param mask: takes secrets out of what is told of errors
    """
    member = settings.member

    def make_hands(
        stopped: Released, finished: Released, changed: Callable[[], None], lease: WorkerLease
    ) -> TaskExecutor:
        def make_runner(on_event: OnEvent) -> Runner:
            if equipment.runner == "noop":
                return NoopRunner(on_event)
            spark = LocalSparkSettings(
                master=equipment.spark_master, app_name=member.worker, conf=dict(equipment.spark_conf)
            )
            return LocalRunner(on_event, allowed=equipment.allowed, lease=lease, settings=spark, mask=mask)

        return TaskExecutor(
            worker=member.worker,
            group_id=member.group_id,
            logs=logs,
            make_runner=make_runner,
            slots=settings.slots,
            checkpoint_root=TEMPORARY if equipment.runner == "noop" else equipment.checkpoint_root,
            stopped=stopped,
            finished=finished,
            changed=changed,
            linger_s=equipment.linger_s,
            lease_ms=member.session_timeout_ms,
            mask=mask,
            max_spark_deaths=equipment.max_spark_deaths,
        )

    return make_hands
