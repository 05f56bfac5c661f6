"""Whoever waits in the triggerer hears from the coordinator that a group has lost its last worker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any

import pytest
from airflow_values import group_record, job, jobs_snapshot, status_snapshot, worker_status
from trigger_bench import SETTINGS, FakeTopics, Triggerer, events_of
from waiting import DEADLINE_S, eventually

from airflow_provider.integration.memberships import deserted
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.records import TaskState, WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers import group_now as module
from airflow_provider.triggers.conditions import JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.triggers.group_now import group_now
from airflow_provider.values.model import TaskId, WorkerId

W1 = WorkerId("w1")
KNOWN = jobs_snapshot(job(), tasks=2)
RUNS = JobCondition(job="job", run_key="r1", goal=JobGoal.RUNNING)


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
        monkeypatch.setattr(deserted, "without_classic_members", self._without_classic_members)

    async def _without_classic_members(self, groups: Collection[str], _settings: KafkaSettings) -> frozenset[str]:
        self.asked.append(set(groups))
        if self.empty is None:
            raise TransportError("no broker answers", fault=Fault.CONNECTION)
        return frozenset(self.empty & set(groups))


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
async def test_a_job_whose_last_worker_was_killed_does_not_count_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    triggerer = Triggerer(monkeypatch)
    triggerer.deserted = frozenset({"g"})
    triggerer.topics.now(jobs=KNOWN, status=running_at(3))
    trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=RUNS.to_json())
    waiting = asyncio.ensure_future(events_of(trigger))
    await eventually(lambda: len(triggerer.asked) > 2)
    assert not waiting.done()
    triggerer.deserted = frozenset()
    (event,) = await asyncio.wait_for(waiting, DEADLINE_S)
    assert event.payload["report"]["counts"] == {"running": 2}


@pytest.mark.usefixtures("often")
async def test_what_the_coordinator_says_is_heard_as_a_change(coordinator: Coordinator) -> None:
    changes: list[bool] = []
    async with group_now(SETTINGS, "g", topics_with(running_at(3))) as now:
        stop = now.subscribe(lambda: changes.append(now.status.deserted))
        coordinator.empty = {"g"}
        await eventually(lambda: changes == [True])
        assert now.status is now.status, "one snapshot, so that what is computed from it is kept"
        assert RUNS.answer(now.jobs, now.status) is None
        report = RUNS.report(now.jobs, now.status)
        assert report is not None
        assert report["counts"] == {"unwatched": 2}
        assert "no worker is there: w1, w2 got lost" in RUNS.so_far(now.jobs, now.status).in_words(0)
        coordinator.empty = set()
        await eventually(lambda: changes == [True, False])
        stop()


async def test_a_later_round_is_newer_than_the_answer(coordinator: Coordinator) -> None:
    coordinator.empty, topics = {"g"}, topics_with(running_at(3))
    async with group_now(SETTINGS, "g", topics) as now:
        assert now.status.deserted, "it was asked before the block begins"
        topics.now(status=running_at(4))
        assert not now.status.deserted


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
async def test_who_has_no_round_or_whose_workers_have_left_in_order_is_not_asked_for(coordinator: Coordinator) -> None:
    gone = {each.worker: each for each in (worker_status(name, 3, WorkerPhase.LEFT) for name in ("w1", "w2"))}
    groups = {"left": StatusSnapshot(group=group_record(3), workers=gone), "new": StatusSnapshot()}
    async with AsyncExitStack() as all_of_them:
        for name, status in groups.items():
            await all_of_them.enter_async_context(group_now(SETTINGS, name, topics_with(status)))
        async with group_now(SETTINGS, "g", topics_with(running_at(3))):
            await eventually(lambda: len(coordinator.asked) > 2)
    assert all(asked == {"g"} for asked in coordinator.asked)


@pytest.mark.usefixtures("often")
async def test_when_nobody_watches_any_more_nobody_is_asked(coordinator: Coordinator) -> None:
    for _ in range(2):
        async with group_now(SETTINGS, "g", topics_with(running_at(3))):
            await eventually(lambda: coordinator.asked)
        coordinator.asked.clear()
        await asyncio.sleep(0.05)
        assert coordinator.asked == []
        assert not module._clusters()
