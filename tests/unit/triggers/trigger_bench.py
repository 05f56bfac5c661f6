"""What surrounds a trigger in its tests: a group's topics, a worker, and Airflow's word about the task instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent
from stand_ins import LonelyCoordinator
from waiting import DEADLINE_S

from airflow_provider.assignment.model import Absence
from airflow_provider.assignment.policy import Incremental
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live import shared
from airflow_provider.group.live.classic import classic_membership
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.memberships import deserted
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.topic_view import About
from airflow_provider.triggers import worker as worker_module
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import Epoch, WorkerId
from airflow_provider.worker import holding
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.settings import Until

SETTINGS = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092", "sasl.password": "hunter2"}, conn_id="c")
SPEC = WorkerSpec(
    member=MemberSettings(
        group_id="g", worker=WorkerId("w1"), url="http://airflow.example/w1", session_timeout_ms=60_000
    ),
    slots=2,
    until=Until.DRAINED,
    policy=Incremental(max_moves=7, max_delay_ms=1_000),
    idle_timeout_ms=600_000,
)
STORY = WorkerStory(began_ms=7, deferrals=1, first_epoch=2, last_epoch=4)
SAVED = {"v": 1, "member": {"epoch": 4, "member_id": "w1-member", "generation": 4, "saved_at_ms": 4_000}}

HANDED_OVER = {"v": 1, "member": {"epoch": 5, "member_id": "w1-member", "generation": 5, "saved_at_ms": 5_000}}


class FakeTopics:
    """Topics whose snapshots the test sets, and tells of."""

    def __init__(self) -> None:
        self.jobs = JobsSnapshot()
        self.status = StatusSnapshot()
        self.problem: TopicError | None = None
        self.listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None], about: About = About.EVERYTHING) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def now(self, *, jobs: JobsSnapshot | None = None, status: StatusSnapshot | None = None) -> None:
        self.jobs, self.status = jobs or self.jobs, status or self.status
        for listener in list(self.listeners):
            listener()

    async def wait_for(self, holds: Callable[..., bool], *, timeout_s: float | None = None) -> None:
        changed = asyncio.Event()
        stop = self.subscribe(changed.set)
        try:
            while not holds(self.jobs, self.status):
                await changed.wait()
                changed.clear()
        finally:
            stop()


class FakeWorker:
    """A membership that ends when the test, or its trigger, says so."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.cancelled = False
        self.stopped_running = 0

    def applied(self) -> Epoch:
        return Epoch(5)

    async def run(self) -> Outcome:
        try:
            return await self.outcome
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def leave(self, reason: str, absence: Absence, _confirm_within_s: float) -> None:
        self.absence = absence
        if not self.outcome.done():
            self.end(Ending.LEFT)

    def hand_over(self) -> None:
        self.end(Ending.HANDED_OVER, saved=HANDED_OVER)

    def end(self, ending: Ending, **more: Any) -> None:
        self.outcome.set_result(Outcome(ending=ending, epoch=Epoch(5), **more))


class Triggerer:
    """What surrounds a trigger: topics, a worker, and Airflow's word about its task instance.

    :ivar deserted: the groups that have no members, as the coordinator says
    :ivar asked: the groups of each question about that
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics = FakeTopics()
        self.settings = SETTINGS
        self.used: list[KafkaSettings] = []
        self.refused: list[KafkaSettings] = []
        self.reached: list[KafkaSettings] = []
        self.worker: FakeWorker | None = None
        self.held: asyncio.Event = asyncio.Event()
        self.saved: list[Any] = []
        self.task_state: str | None = "deferred"
        self.state_lookups = 0
        self.xcoms: dict[str, Any] = {}
        self.deserted = frozenset[str]()
        self.asked: list[frozenset[str]] = []

        async def aget_settings(_hook: SparkGroupHook) -> KafkaSettings:
            return self.settings

        @asynccontextmanager
        async def watched_topics(settings: KafkaSettings, _group: str) -> AsyncIterator[FakeTopics]:
            self.used.append(settings)
            yield self.topics

        @asynccontextmanager
        async def shared_topics(settings: KafkaSettings, _group: str, _needs: object) -> AsyncIterator[FakeTopics]:
            self.used.append(settings)
            yield self.topics

        @asynccontextmanager
        async def shared_transport(_settings: KafkaSettings) -> AsyncIterator[LonelyCoordinator]:
            yield LonelyCoordinator()

        async def reach(settings: KafkaSettings) -> None:
            self.reached.append(settings)
            if settings in self.refused:
                raise TransportError("Authentication failed", fault=Fault.SECURITY)

        def held_worker(
            _settings: Any, _topics: Any, _make: Any, _starter: Any, saved: Any, _process: Any
        ) -> FakeWorker:
            self.saved.append(saved)
            self.worker = FakeWorker()
            self.held.set()
            return self.worker

        async def state_of(_ti: Any) -> str | None:
            self.state_lookups += 1
            return self.task_state

        async def push_xcom(_ti: Any, key: str, value: Any) -> None:
            self.xcoms[key] = value

        monkeypatch.setattr(SparkGroupHook, "aget_settings", aget_settings)
        monkeypatch.setattr(shared, "watched_topics", watched_topics)
        monkeypatch.setattr(holding, "shared_topics", shared_topics)
        monkeypatch.setattr(classic_membership, "shared_transport", shared_transport)
        monkeypatch.setattr(shared, "reach", reach)
        monkeypatch.setattr(deserted, "have_classic_members", self._have_classic_members)
        monkeypatch.setattr(holding, "SteadyWorker", held_worker)
        monkeypatch.setattr(worker_module, "state_of", state_of)
        monkeypatch.setattr(worker_module, "push_xcom", push_xcom)

    async def _have_classic_members(self, groups: Collection[str], _settings: KafkaSettings) -> dict[str, bool]:
        self.asked.append(frozenset(groups))
        return {group: group not in self.deserted for group in groups}

    async def start(self, trigger: WorkerTrigger) -> asyncio.Task[list[TriggerEvent]]:
        """Run it as Airflow does, to the point where it holds its membership."""
        running = self.run(trigger)
        await asyncio.wait_for(self.held.wait(), DEADLINE_S)
        return running

    def run(self, trigger: WorkerTrigger) -> asyncio.Task[list[TriggerEvent]]:
        task_instance: Any = SimpleNamespace(dag_id="d", task_id="w", run_id="r", map_index=-1)
        trigger.task_instance = task_instance
        return asyncio.ensure_future(events_of(trigger))


async def events_of(trigger: Any) -> list[TriggerEvent]:
    return [event async for event in trigger.run()]


def worker_trigger(**changes: Any) -> WorkerTrigger:
    return WorkerTrigger(
        **{"kafka_conn_id": "c", "plan": SPEC.to_json(), "saved": SAVED, "story": STORY.to_json(), **changes}
    )
