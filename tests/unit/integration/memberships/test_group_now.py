"""Whoever watches a group hears from its coordinator that the last worker is lost, or that some are there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any

import pytest
from airflow_values import group_record, job, jobs_snapshot, status_snapshot, worker_status
from trigger_bench import SETTINGS, FakeTopics
from waiting import eventually

from airflow_provider.integration.memberships import deserted
from airflow_provider.integration.memberships import group_now as module
from airflow_provider.integration.memberships.group_now import ClusterNow, group_now
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.records import TaskState, WorkerPhase
from airflow_provider.state.reports.report import JobReport
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.presence import nobody
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, TaskId, WorkerId

W1 = WorkerId("w1")
KNOWN = jobs_snapshot(job(), tasks=2)
GONE = StatusSnapshot(
    group=group_record(3),
    workers={each.worker: each for each in (worker_status(name, 3, WorkerPhase.LEFT) for name in ("w1", "w2"))},
)


def running_at(epoch: int) -> StatusSnapshot:
    """A round, in which ``w1`` runs both tasks."""
    record = group_record(epoch, assignment={W1: frozenset(TaskId("job", index) for index in range(2))})
    return status_snapshot(KNOWN, "job", TaskState.RUNNING, TaskState.RUNNING, record=record, worker=W1)


class Coordinator:
    """Knows which groups have no members; None: it does not answer.

    :ivar asked: the groups of each question
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.empty: set[str] | None = set()
        self.asked: list[set[str]] = []
        monkeypatch.setattr(deserted, "have_classic_members", self._have_classic_members)

    async def _have_classic_members(self, groups: Collection[str], _settings: KafkaSettings) -> dict[str, bool]:
        self.asked.append(set(groups))
        if self.empty is None:
            raise TransportError("no broker answers", fault=Fault.CONNECTION)
        return {group: group not in self.empty for group in groups}


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    return Coordinator(monkeypatch)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ASK_AGAIN_S", 0.01)


def topics_with(status: StatusSnapshot) -> Any:
    topics = FakeTopics()
    topics.now(jobs=KNOWN, status=status)
    return topics


@pytest.mark.usefixtures("often")
async def test_what_the_coordinator_says_is_heard_as_a_change(coordinator: Coordinator) -> None:
    changes: list[bool] = []
    async with group_now(SETTINGS, "g", topics_with(running_at(3))) as now:
        stop = now.subscribe(lambda: changes.append(now.status.deserted))
        coordinator.empty = {"g"}
        await eventually(lambda: changes == [True])
        assert now.status is now.status, "one snapshot, so that what is computed from it is kept"
        report = JobReport.of("job", now.jobs, now.status)
        assert report is not None
        assert report.to_json()["counts"] == {"unwatched": 2}
        assert nobody(now.status).startswith("no worker is there: w1, w2 got lost")
        coordinator.empty = set()
        await eventually(lambda: changes == [True, False])
        stop()


@pytest.mark.usefixtures("often")
async def test_one_that_fails_as_it_hears_keeps_nobody_else_from_hearing(coordinator: Coordinator) -> None:
    """Each is called in its own context, by which Airflow finds the log of a line."""

    def fails() -> None:
        raise ValueError("a fault")

    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault["exception"]))
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")
    heard: list[tuple[str, bool]] = []
    async with group_now(SETTINGS, "g", topics_with(running_at(3))) as now:
        stops = [now.subscribe(fails)]
        whose.set("mine")
        stops.append(now.subscribe(lambda: heard.append((whose.get(), now.status.deserted))))
        for coordinator.empty, deserted_now in (({"g"}, True), (set(), False)):
            await eventually(lambda: heard[-1:] == [("mine", deserted_now)])  # noqa: B023
        for stop in stops:
            stop()
    assert [type(fault) for fault in faults] == [ValueError, ValueError]


async def test_what_is_written_later_is_newer_than_the_answer(coordinator: Coordinator) -> None:
    coordinator.empty, topics = {"g"}, topics_with(running_at(3))
    async with group_now(SETTINGS, "g", topics) as now:
        assert now.status.deserted, "it was asked before the block begins"
        topics.now(status=running_at(4))
        assert not now.status.deserted
    coordinator.empty = set()
    async with group_now(SETTINGS, "g", topics) as now:
        topics.now(status=GONE)
        assert nobody(now.status), "the workers have left since"


@pytest.mark.parametrize("status", [StatusSnapshot(), GONE], ids=["joins", "joins again"])
async def test_a_group_has_members_whom_no_record_names(coordinator: Coordinator, status: StatusSnapshot) -> None:
    """They are joining, or their leader is one of Java's, which writes no record."""
    assert nobody(status)
    topics = topics_with(status)
    async with group_now(SETTINGS, "g", topics) as now:
        assert not nobody(now.status)
    coordinator.empty = {"g"}
    async with group_now(SETTINGS, "g", topics) as now:
        assert now.status is status, "the topics know it as well"


async def test_all_groups_are_asked_for_together_and_each_as_often_as_on_the_page(coordinator: Coordinator) -> None:
    groups = {name: topics_with(running_at(3)) for name in ("g", "h")}
    async with AsyncExitStack() as all_of_them:
        for _ in range(100):
            for name, topics in groups.items():
                await all_of_them.enter_async_context(group_now(SETTINGS, name, topics))
        assert coordinator.asked == [{"g"}, {"h"}], "each when its first sensor came"


@pytest.mark.usefixtures("often")
async def test_without_an_answer_the_topics_are_believed(coordinator: Coordinator) -> None:
    coordinator.empty = None
    async with group_now(SETTINGS, "g", topics_with(running_at(3))) as now:
        await eventually(lambda: len(coordinator.asked) > 2)
        assert not now.status.deserted


@pytest.mark.usefixtures("often")
async def test_brokers_are_not_asked_for_declarative_groups(coordinator: Coordinator) -> None:
    declarative = StatusSnapshot(
        group=DeclarativeRecord(
            epoch=Epoch(1),
            leader=W1,
            config_offset=ConfigOffset(1),
            members={W1: MemberId("m")},
            assignment={W1: frozenset()},
            revoked={},
            moves=(),
            delay_ms=0,
            reason="",
            at_ms=1,
        )
    )
    async with group_now(SETTINGS, "d", topics_with(declarative)) as now, group_now(SETTINGS, "g", topics_with(GONE)):
        await eventually(lambda: len(coordinator.asked) > 2)
        assert now.status is declarative
    assert all(asked == {"g"} for asked in coordinator.asked)


async def test_the_others_hear_the_answer_when_one_has_gone_meanwhile(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ClosedTopics(FakeTopics):
        closed = False

        @property
        def status(self) -> StatusSnapshot:
            if self.closed:
                raise TopicError("the topics are not open")
            return running_at(3)

        @status.setter
        def status(self, _status: StatusSnapshot) -> None: ...

    goes: Any = ClosedTopics()
    begun, answers = asyncio.Event(), asyncio.Event()
    at_once = deserted.have_classic_members

    async def have_classic_members(groups: Collection[str], settings: KafkaSettings) -> Mapping[str, bool]:
        begun.set()
        await answers.wait()
        return await at_once(groups, settings)

    monkeypatch.setattr(deserted, "have_classic_members", have_classic_members)
    coordinator.empty = {"g", "goes"}
    cluster = ClusterNow.of(SETTINGS)
    cluster.watch("goes", goes)
    stays = cluster.watch("g", topics_with(running_at(3)))
    await begun.wait()
    cluster.forget("goes")
    goes.closed = True
    answers.set()
    await eventually(lambda: stays.status.deserted)
    cluster.forget("g")


@pytest.mark.usefixtures("often")
async def test_when_nobody_watches_any_more_nobody_is_asked(coordinator: Coordinator) -> None:
    for _ in range(2):
        async with group_now(SETTINGS, "g", topics_with(running_at(3))):
            await eventually(lambda: coordinator.asked)
        coordinator.asked.clear()
        await asyncio.sleep(0.05)
        assert coordinator.asked == []
        assert not module._clusters()
