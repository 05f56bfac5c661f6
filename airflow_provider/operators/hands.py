"""What runs a worker's tasks in the process of its Airflow task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.membership.model import Tasks
from airflow_provider.operators.worker_run import Equipment
from airflow_provider.spark.application import LocalSparkSettings
from airflow_provider.spark.local import LocalRunner
from airflow_provider.spark.noop import NoopRunner
from airflow_provider.spark.runner import OnEvent, Runner
from airflow_provider.triggers.worker_values import WorkerPlan
from airflow_provider.worker.executor import TaskExecutor
from airflow_provider.worker.hands import Released
from airflow_provider.worker.lease import WorkerLease


class CountingExecutor(TaskExecutor):
    """Counts for the worker's summary how often a running task was told to stop."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.stopped_running = 0

    def drop(self, tasks: Tasks, reason: str) -> None:
        self.stopped_running += sum(not task.is_planner for task in tasks & self.running)
        super().drop(tasks, reason)


def make_executor(
    plan: WorkerPlan,
    equipment: Equipment,
    logs: GroupLogs,
    stopped: Released,
    finished: Released,
    changed: Callable[[], None],
    lease: WorkerLease,
) -> CountingExecutor:
    """The hands of a worker, on the running loop."""

    def make_runner(on_event: OnEvent) -> Runner:
        if equipment.runner == "noop":
            return NoopRunner(on_event)
        logging.getLogger("py4j").setLevel(logging.WARNING)  # else every task's end says "Closing down connection"
        spark = LocalSparkSettings(
            master=equipment.spark_master, app_name=plan.member.worker, conf=dict(equipment.spark_conf)
        )
        return LocalRunner(on_event, allowed=equipment.allowed, lease=lease, settings=spark)

    return CountingExecutor(
        worker=plan.member.worker,
        group_id=plan.member.group_id,
        logs=logs,
        make_runner=make_runner,
        slots=plan.slots,
        checkpoint_root=equipment.checkpoint_root,
        stopped=stopped,
        finished=finished,
        changed=changed,
        linger_s=equipment.linger_ms / 1000,
    )
