"""A worker for the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider.common.worker_values import WorkerPlan
from airflow_provider.group.classic import ClassicMemberships
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.ledger.progress import needs_running
from airflow_provider.ledger.records import WorkerPhase
from airflow_provider.protocol.model import Epoch, TaskId, Tasks
from airflow_provider.topics.group_topics import GroupTopics
from airflow_provider.worker.hands import Released, Standby
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker


class WakingStandby(Standby):
    """Has its worker look again when there is something to run, and when it may be run.

    :param changed: told then
    :param pause_s: the task's process is wanted no sooner
    """

    def __init__(
        self,
        needs_running: Callable[[TaskId], bool],
        stopped: Released,
        changed: Callable[[], None],
        pause_s: float,
    ) -> None:
        super().__init__(needs_running, stopped)
        self._changed = changed
        loop = asyncio.get_running_loop()
        self._not_before = loop.time() + pause_s
        self._timer = loop.call_at(self._not_before, changed)

    @property
    def done(self) -> bool:
        return super().done and asyncio.get_running_loop().time() >= self._not_before

    async def close(self) -> None:
        self._timer.cancel()
        await super().close()

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        super().take(tasks, epoch)
        self._changed()


def standby_worker(
    plan: WorkerPlan, transport: GroupTransport, topics: GroupTopics, saved: Mapping[str, Any], *, pause_s: float
) -> Worker:
    """The worker of ``plan``, with hands that run nothing.

    :param topics: read to their ends
    :param saved: the membership to go on with
    :param pause_s: hand it over no sooner
    """

    def is_needed(task: TaskId) -> bool:
        return needs_running(task, topics.jobs, topics.status.tasks)

    def make_hands(
        stopped: Released,
        finished: Released,  # noqa: ARG001
        changed: Callable[[], None],
        lease: WorkerLease,  # noqa: ARG001
    ) -> Standby:
        return WakingStandby(is_needed, stopped, changed, pause_s)

    return Worker(
        worker_settings(plan, WorkerPhase.DEFERRED),
        topics=topics,
        memberships=ClassicMemberships(plan.member, transport, topics, policy=plan.policy),
        make_hands=make_hands,
        saved=saved,
    )


def worker_settings(plan: WorkerPlan, phase: WorkerPhase, returns_ms: int | None = None) -> WorkerSettings:
    """``plan`` in the worker's own words.

    :param phase: what the worker's record says while it is in the group
    :param returns_ms: in what time at most it is back if its process ends; not known of a triggerer's memberships: it
        is Airflow that gives them to another one
    """
    return WorkerSettings(
        member=plan.member,
        slots=plan.slots,
        until=Until(plan.until),
        phase=phase,
        returns_ms=returns_ms,
        idle_timeout_ms=plan.idle_timeout_ms,
    )
