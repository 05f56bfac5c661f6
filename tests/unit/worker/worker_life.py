"""One worker's life for tests: real membership, real executor; the coordinator and the topics stand in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from execution_settings import execution_settings
from stand_ins import HandRunner, LonelyCoordinator, MemoryTopics
from waiting import DEADLINE_S, eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.live.classic.classic_membership import ClassicMemberships
from airflow_provider.group.membership import Memberships
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.spark.runner import OnEvent
from airflow_provider.spark.runners.detached_queries import MakeQueries, nothing_detached
from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskKind,
    TaskState,
    WorkerPhase,
)
from airflow_provider.values.model import TaskId, WorkerId
from airflow_provider.worker.endings.ending import Outcome
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import is_gone
from airflow_provider.worker.reporting.observer import UNOBSERVED, Observer
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import MakeHands, Worker

ME = WorkerId("w1")
A0, A1 = TaskId("a", 0), TaskId("a", 1)
MEMBER = MemberSettings(
    group_id="g",
    worker=ME,
    session_timeout_ms=600,
    heartbeat_interval_ms=30,
    fast_heartbeat_ms=5,
    lease_margin_ms=200,
    retry_backoff_ms=10,
    retry_backoff_max_ms=40,
)
SHORT = {"rebalance_timeout_ms": MEMBER.session_timeout_ms}
LONG: dict[str, Any] = {"session_timeout_ms": 120_000, "heartbeat_interval_ms": 60_000, "rebalance_timeout_ms": 120_000}
GONE = TransportError("connection refused", fault=Fault.CONNECTION)
OTHER_CLOCKS = pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000], ids=["behind", "ahead"])
"""By so much the asker's clock differs from the worker's."""


class Life:
    """One worker's life: what it lives with, and how it ended."""

    def __init__(self, **settings: Any) -> None:
        self.topics = MemoryTopics()
        self.coordinator = LonelyCoordinator()
        self.runner: Any = None
        self.linger_s = 60.0
        self.make_hands: MakeHands = self._make_hands
        self.make_queries: MakeQueries = nothing_detached
        self.observer: Observer = UNOBSERVED
        self.member_settings = replace(MEMBER, **settings.pop("member", {}))
        self.settings = WorkerSettings(**{"member": self.member_settings, "until": Until.FOREVER, **settings})
        self.worker: Worker
        self._run: asyncio.Task[Outcome]

    def memberships(self) -> Memberships:
        sees = is_gone if self.settings.phase is not WorkerPhase.DEFERRED else None
        transport: Any = self.coordinator
        return ClassicMemberships(self.member_settings, transport, self.topics, policy=Deferred(), is_gone=sees)

    @property
    def member(self) -> GroupMember:
        assert isinstance(self.worker.member, GroupMember)
        return self.worker.member

    def begin(self, saved: Any = None) -> None:
        self.worker = Worker(
            self.settings,
            topics=self.topics,
            memberships=self.memberships(),
            make_hands=self.make_hands,
            saved=saved,
            observer=self.observer,
        )
        self._run = asyncio.ensure_future(self.worker.run())

    def _make_hands(
        self, stopped: Released, finished: Released, changed: Callable[[], None], _lease: WorkerLease
    ) -> TaskExecutor:
        def make_runner(on_event: OnEvent) -> HandRunner:
            runner = self.runner = HandRunner(on_event, changed)
            return runner

        return TaskExecutor(
            execution_settings(lease_ms=MEMBER.session_timeout_ms, linger_ms=round(self.linger_s * 1000)),
            group_id="g",
            topics=self.topics,
            make_runner=make_runner,
            checkpoint_root="/checkpoints",
            stopped=stopped,
            finished=finished,
            changed=changed,
            make_queries=self.make_queries,
        )

    async def submit(self, *, tasks: int = 2, **definition: Any) -> None:
        job = JobDefinition(name="a", entry_point="m:f", max_tasks=9, **definition)
        await self.topics.submit(job)
        await self.plan(tasks)

    async def plan(self, tasks: int) -> None:
        job = self.topics.jobs.jobs["a"]
        await self.topics.publish_plan(PlanRecord.of(job, [{"i": i} for i in range(tasks)], planned_by=ME, at_ms=0))

    async def runs(self, *tasks: TaskId) -> None:
        """As in an executor's bench."""
        await eventually(
            lambda: (
                self.runner.running == self.runner.begun == frozenset(tasks)
                and all(self.state(t) is TaskState.RUNNING for t in tasks)
            ),
            f"{tasks} run",
        )

    async def outcome(self) -> Outcome:
        return await asyncio.wait_for(asyncio.shield(self._run), DEADLINE_S)

    async def cancel(self) -> None:
        self._run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._run

    def state(self, task: TaskId) -> TaskState | None:
        told = self.topics.status.tasks.get(task)
        return told.state if told else None

    @property
    def phase(self) -> WorkerPhase | None:
        told = self.topics.status.workers.get(ME)
        return told.state if told else None

    @property
    def ended(self) -> bool:
        return self._run.done()


@asynccontextmanager
async def living(**settings: Any) -> AsyncIterator[Life]:
    life = Life(**settings)
    await life.submit(kind=TaskKind.STREAMING)
    life.begin()
    try:
        await life.runs(A0, A1)
        yield life
    finally:
        if life.runner is not None:
            life.runner.stubborn.clear()
        await life.cancel()
    assert len(asyncio.all_tasks()) == 1, f"left behind: {asyncio.all_tasks()}"
