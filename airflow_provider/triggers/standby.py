"""A worker for the triggerer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.records import WorkerPhase
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.membership.model import Epoch, TaskId, Tasks
from airflow_provider.triggers.worker_values import WorkerPlan
from airflow_provider.worker.hands import Released, Standby
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.runs import needs_running
from airflow_provider.worker.worker import Until, Worker, WorkerSettings


class WakingStandby(Standby):
    """Has its worker look again when there is something to run.

    :param changed: told when tasks were given
    """

    def __init__(
        self,
        needs_running: Callable[[TaskId], bool],
        stopped: Released,
        finished: Released,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(needs_running, stopped, finished)
        self._changed = changed

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        super().take(tasks, epoch)
        self._changed()


def standby_worker(plan: WorkerPlan, transport: GroupTransport, logs: GroupLogs, saved: Mapping[str, Any]) -> Worker:
    """The worker of ``plan``, with hands that run nothing."""

    def is_needed(task: TaskId) -> bool:
        return needs_running(task, logs.jobs, logs.status.tasks)

    def make_hands(
        stopped: Released,
        finished: Released,
        changed: Callable[[], None],
        lease: WorkerLease,  # noqa: ARG001
    ) -> Standby:
        return WakingStandby(is_needed, stopped, finished, changed)

    return Worker(
        worker_settings(plan, WorkerPhase.DEFERRED), transport=transport, logs=logs, make_hands=make_hands, saved=saved
    )


def worker_settings(plan: WorkerPlan, phase: WorkerPhase) -> WorkerSettings:
    """``plan`` in the worker's own words.

    :param phase: what the worker's record says while it is in the group
    """
    return WorkerSettings(
        member=plan.member,
        max_delay_ms=plan.max_delay_ms,
        slots=plan.slots,
        until=Until(plan.until),
        phase=phase,
    )
